"""Queued jobs that never start as they are: above their own limit, which must not be raised, or of unknown GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from gpusched_env.traces.node_lists import GPU_TYPE
from gpusched_env.twin.model import Pool, Twin
from gpusched_env.twin.settings import Setting
from gpusched_env.twin.snapshot import PresentJob, Snapshot

UNTOLD_TYPE: Final = "a GPU type is not told"


def without_excess(snapshot: Snapshot, twin: Twin) -> Snapshot:
    """Return the snapshot with the queued jobs above a limit of the twin held, with this limit as their reason."""
    return _holding(snapshot, {job.id: _limit_of(job, twin) for job in snapshot.queued})


def without_missing_types(snapshot: Snapshot, setting: Setting) -> Snapshot:
    """Return the snapshot with the queued jobs held that ask for a GPU type that no machine of their partition has.

    If some of these machines have the type that stands for one that is not told, the job runs on any; a note counts it.
    """
    lacking = {job.id: _lack_of(job, setting.pools) for job in snapshot.queued}
    if untold := sum(text == UNTOLD_TYPE for text in lacking.values()):
        what = f"queued jobs ask for another GPU type than {GPU_TYPE}, as untold ones count: they run on any"
        snapshot = dataclasses.replace(snapshot, notes=(*snapshot.notes, f"{untold:,} {what}"))
    return _holding(snapshot, {name: text for name, text in lacking.items() if text != UNTOLD_TYPE})


def _lack_of(job: PresentJob, pools: Sequence[Pool]) -> str:
    """Return the GPU types of a job if its pools have none of them, in words; "" = they have one, or it asks none."""
    asked = {part.strip().casefold() for part in job.gpu_types.split("|")} - {""}
    own = [pool for pool in pools if not pool.partitions or not {*pool.partitions}.isdisjoint(job.partition.split(","))]
    there = {group.gpu_type.casefold() for pool in own for group in pool.groups}
    if not own or not asked or not asked.isdisjoint(there):
        return ""
    return UNTOLD_TYPE if GPU_TYPE.casefold() in there else f"no GPUs of type {job.gpu_types}"


def _holding(snapshot: Snapshot, reasons: dict[str, str]) -> Snapshot:
    """Return the snapshot with these queued jobs held for these reasons; "" = not."""
    reasons = {name: text for name, text in reasons.items() if text}
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
