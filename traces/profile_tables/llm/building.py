"""Model profiles of jobs that train transformers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.workload import MEASURED_DTYPE, PLAN_DTYPE, Profiles
from gpusched_env.traces.profile_tables.llm.plans import best_plan, make_run, refused, timed
from gpusched_env.traces.profile_tables.llm.quantities import Model


@dataclass(frozen=True)
class Request:
    """A model that jobs train: one profile, whose iterations are equal progress on every gang size.

    ``batch`` : sequences of an iteration, of all GPUs together; ``gpus`` : gang sizes; ``release`` : of anchors
    """

    model: str | Model
    batch: int
    gpus: tuple[int, ...]
    gpu_types: tuple[str, ...] = ("H100",)
    precision: str = "BF16"
    kind: str = "pretrain"
    seq: int | None = None
    release: str = ""

    @property
    def name(self) -> str:
        """Name of the profile."""
        model = self.model if isinstance(self.model, str) else self.model.model
        return f"{model} {self.kind} {self.precision} {self.batch}"


def llm_profiles(requests: Sequence[Request]) -> Profiles:
    """Return a profile for each request: the fastest plan that fits on each gang size and GPU type.

    A gang size without such a plan has an infinite compute time. A gang that fits into one server and is spread over
    several is taken to be in two halves.

    Raises
    ------
    WorkloadError : an unknown name, or a request of which no gang size can run, with the arithmetic
    """
    types = tuple(dict.fromkeys(name for request in requests for name in request.gpu_types))
    rows, measured, plans = [], [], []
    for index, request in enumerate(requests):
        compute, memory, reasons = [math.inf] * len(types), 0.0, []
        for gpu_type in request.gpu_types:
            column = types.index(gpu_type)
            told = request.batch, request.seq, request.precision, request.kind
            run = make_run(request.model, gpu_type, *told)
            for gpus in sorted(set(request.gpus)):
                option = best_plan(run, gpus, request.release)
                if option is None:
                    reasons.append(f"{gpus} {gpu_type}: {refused(run, gpus, request.release)}")
                    measured.append((index, column, gpus, MACHINE, math.inf, 0.0))
                    continue
                plan, halves = option.plan, gpus // 2 if 1 < gpus <= run.gpu.domain else 0
                measured.append((index, column, gpus, MACHINE, option.compute_s, option.communication_s))
                spread = timed(run, plan, request.release, halves)[0]
                if halves:
                    measured.append((index, column, gpus, RACK, *spread[:2]))
                plans.append((index, gpus, plan.tp, plan.cp, plan.ep, plan.dp, plan.pp, 0, *spread[2:]))
                compute[column] = (
                    min(compute[column], option.compute_s) if compute[column] < math.inf else option.compute_s
                )
                memory = max(memory, option.memory_bytes)
        if not any(map(math.isfinite, compute)):
            raise WorkloadError(f"{request.name}: no gang can run; {'; '.join(reasons)}")
        rows.append(
            dict(name=request.name, batch=request.batch, gradient_bytes=0.0, memory_bytes=memory, skew=0.0,
                 overlap=1.0, compute_s=compute)
        )  # fmt: skip
    plain = Profiles.from_rows(rows, types)
    return Profiles(
        plain.rows, plain.compute_s, types, np.array(measured, MEASURED_DTYPE), plans=np.array(plans, PLAN_DTYPE)
    )
