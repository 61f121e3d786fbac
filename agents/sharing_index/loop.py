"""The compiled loop of a sharing index; it makes the same decisions as ``SharingIndex.decide``, in the same order."""

from __future__ import annotations

from gpusched_env.agents.sharing_index.state import SharingState
from gpusched_env.agents.sharing_index.walk import PREEMPTS, STARTS, next_decision
from gpusched_env.baselines.loop_kernels import ASLEEP, sleep
from gpusched_env.core.events import BUFFER_FULL, DECIDE, EXPLICIT, LOG_FULL, preempt, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run


@kernel
def play_sharing(sim: Run, plan: SharingState) -> int:
    """Play until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    m = plan.memory
    while True:
        if m["phase"] == ASLEEP:
            outcome = sleep(sim, plan.memory)
            if outcome != DECIDE:
                return outcome
        kind = next_decision(sim, plan)
        row = m["job"]
        if kind == STARTS:
            steps = sim.sub_batches[sim.jobs[row]["job_class"], m["option"], 0]["sub_steps"]
            if start(sim, row, EXPLICIT, sim.jobs[row]["gpus"], True, steps) == BUFFER_FULL:
                m["at"] -= 1
                return LOG_FULL
        elif kind == PREEMPTS:
            if preempt(sim, row) == BUFFER_FULL:
                return LOG_FULL
        else:
            m["phase"] = ASLEEP
