"""Model profiles of jobs that train transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.workload import MEASURED_DTYPE, PLAN_DTYPE, Profiles
from gpusched_env.traces.profile_tables.llm.plans import best_plan, evaluate, make_run, refused, timed
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
    """Return a profile for each request: on each gang size, the plan that is fastest on the first type that runs it.

    On its other GPU types the gang has the same plan. Where a plan does not fit or is not known, compute times are
    infinite. A gang that fits into one server and is spread over several is taken to be in two halves.
    """
    types = tuple(dict.fromkeys(name for request in requests for name in request.gpu_types))
    rows, measured = [], []
    plans: list[tuple[float, ...]] = []
    for index, request in enumerate(requests):
        told = request.batch, request.seq, request.precision, request.kind
        runs = {name: make_run(request.model, name, *told) for name in request.gpu_types}
        compute, memory = np.full(len(types), np.inf), 0.0
        for gpus in sorted(set(request.gpus)):
            best = [option for run in runs.values() if (option := best_plan(run, gpus, request.release))]
            for name, run in runs.items():
                place = index, types.index(name), gpus
                option = evaluate(run, best[0].plan, request.release) if best else None
                if option is None or option.why_not:
                    measured.append((*place, MACHINE, np.inf, 0.0))
                    continue
                measured.append((*place, MACHINE, option.compute_s, option.communication_s))
                halves = gpus // 2 if 1 < gpus <= run.gpu.domain else 0
                spread = timed(run, option.plan, request.release, halves)[0]
                if halves:
                    measured.append((*place, RACK, *spread[:2]))
                if not plans or plans[-1][:2] != (index, gpus):
                    tp, pp, _, cp, ep, dp, *_ = option.plan
                    plans.append((index, gpus, tp, cp, ep, dp, pp, 0, *spread[2:]))
                if np.isinf(compute[place[1]]):
                    compute[place[1]] = option.compute_s
                memory = max(memory, option.memory_bytes)
        if np.isinf(compute).all():
            why = (
                f"{n} {name}: {refused(run, n, request.release)}" for name, run in runs.items() for n in request.gpus
            )
            raise WorkloadError(f"{request.name}: no gang can run; {'; '.join(why)}")
        plain = dict(gradient_bytes=0.0, skew=0.0, overlap=1.0, batch=request.batch)
        rows.append(dict(name=request.name, memory_bytes=memory, compute_s=compute, **plain))
    made = Profiles.from_rows(rows, types)
    tables = np.array(measured, MEASURED_DTYPE), np.array(plans, PLAN_DTYPE)
    return Profiles(made.rows, made.compute_s, types, tables[0], plans=tables[1])
