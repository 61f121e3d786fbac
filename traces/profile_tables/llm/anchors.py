"""Measured iterations, and the factors by which they correct the formula."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from gpusched_env.portable.elementary import log2
from gpusched_env.traces.profile_tables.llm.quantities import find_gpu, find_model, known_models, shipped
from gpusched_env.traces.profile_tables.llm.times import Plan, Run, iteration

ROUGH: Final = "± 15 %"  # of the formula alone, for dense models: nine rows in ten (studies.llm_calibration)
UNFITTED: Final = ("NVFP4",)  # precisions whose rate was not fitted


class Anchor(NamedTuple):
    """A measured iteration: a row of ``anchors.csv``."""

    model: str
    gpu: str
    precision: str
    kind: str  # "lora", or "pretrain", which also anchors "sft"
    release: str  # of the software; a later one sorts after an earlier one
    gpus: int
    batch: int
    seq: int
    sharding: str
    tp: int
    pp: int
    vp: int
    cp: int
    ep: int
    mbs: int
    step_s: float
    source: str

    @property
    def run(self) -> Run:
        """What the gang trained."""
        return Run(find_model(self.model), find_gpu(self.gpu), self.batch, self.seq, self.precision, self.kind)

    @property
    def plan(self) -> Plan:
        """How it was divided; what it recomputed is in the measured time."""
        dp = self.gpus // (self.tp * self.pp * self.cp)
        return Plan(self.tp, self.pp, self.vp, self.cp, self.ep, dp, self.mbs, self.sharding)


def way(plan: Plan | Anchor) -> tuple[int, int, int, int, int, str]:
    """Return what a plan shares with measured rows that anchor it."""
    return plan.tp, plan.pp, plan.vp, plan.cp, plan.mbs, plan.sharding


def anchors() -> tuple[Anchor, ...]:
    """Return the measured rows."""
    return shipped(Anchor, "anchors.csv")


@cache
def measured(run: Run, release: str = "") -> tuple[Anchor, ...]:
    """Return the rows of the same model, GPU type, precision, kind and length; mixtures of experts: of one release.

    ``release`` : only rows of this release; "" = any, of mixtures of experts the newest
    """
    kind = "lora" if run.kind == "lora" else "pretrain"
    wanted = run.model.model, run.gpu.gpu, run.precision, kind, run.seq
    known = known_models().get(run.model.model) == run.model  # not a user's model of the same name
    rows = [a for a in anchors() if known and (a.model, a.gpu, a.precision, a.kind, a.seq) == wanted]
    if run.model.experts and rows and not release:
        release = max(row.release for row in rows)
    return tuple(row for row in rows if not release or row.release == release)


def nearest(run: Run, plan: Plan, release: str = "") -> Anchor | None:
    """Return the measured row of the same way to divide the model with the most similar size, batch and experts."""
    rows = [row for row in measured(run, release) if way(row) == way(plan)]

    def distance(row: Anchor) -> tuple[float, ...]:
        share = row.batch * plan.gpus / (run.batch * row.gpus)
        far = abs(log2(row.gpus / plan.gpus)) + abs(log2(share)) + abs(log2(row.ep / plan.ep))
        return round(far, 9), -rows.index(row)  # ties: the last row, of the newest release

    return min(rows, key=distance) if rows else None


@cache
def correction(anchor: Anchor) -> float:
    """Return measured / predicted seconds of a row."""
    return anchor.step_s / sum(iteration(anchor.run, anchor.plan)[:2])


def needs_anchor(run: Run, plan: Plan | None = None) -> str:
    """Return why the formula alone says nothing of a run, or of a plan of it; "" = it does."""
    if run.model.experts:
        return f"{run.model.model} is a mixture of experts, for which the formula alone errs by 22 % in the median"
    if run.precision in UNFITTED:
        return f"the rate of {run.precision} was not fitted: the formula alone errs by 24 % in the median"
    if plan is not None and plan.sharding == "fsdp" and plan.gpus > run.gpu.domain:
        return f"FSDP beyond an NVLink domain ({run.gpu.domain} GPUs) needs a measured row of this plan"
    return ""
