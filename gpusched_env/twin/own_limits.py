"""Queued jobs that are above their own limit: they never start as they are, and must not raise the limit for others."""

from __future__ import annotations

import dataclasses

from gpusched_env.twin.model import Twin
from gpusched_env.twin.snapshot import PresentJob, Snapshot


def without_excess(snapshot: Snapshot, twin: Twin) -> Snapshot:
    """Return the snapshot with the queued jobs above a limit of the twin held, with this limit as their reason."""
    reasons = {job.id: text for job in snapshot.queued for text in [_limit_of(job, twin)] if text}
    if not reasons:
        return snapshot
    queued = tuple(job for job in snapshot.queued if job.id not in reasons)
    held = (*snapshot.held, *reasons)
    return dataclasses.replace(snapshot, queued=queued, held=held, reasons={**snapshot.reasons, **reasons})


def _limit_of(job: PresentJob, twin: Twin) -> str:
    """Return the limit that a job exceeds by itself, in words; "" = none."""
    if twin.tenants is None:
        return ""
    for qos in twin.tenants.qos:
        gpus = [limit for limit in (qos.most, qos.most_per_user, qos.most_per_job) if limit is not None]
        if qos.name == job.qos and (job.gpus > min(gpus, default=job.gpus) or job.limit_s > qos.max_time_s):
            return f"above a limit of QOS {qos.name}"
    known = {tenant.name: tenant for tenant in twin.tenants.tree}
    at = "/".join(getattr(job, column, "") for column in twin.tenant_columns)
    for _ in known:
        if at not in known:
            break
        if job.gpus > (known[at].most or job.gpus):
            return f"above the GPUs of {at}"
        at = known[at].parent
    return ""
