"""The compiled loop of a sharing index; it makes the same decisions as ``SharingIndex.decide``, in the same order."""

from __future__ import annotations

from gpusched_env.agents.sharing_index.state import SharingState
from gpusched_env.agents.sharing_index.walk import NOBODY, next_start, order_jobs
from gpusched_env.baselines.loop_kernels import ASLEEP, sleep
from gpusched_env.core.events import DECIDE, EXPLICIT, LOG_FULL, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.refusals import BUFFER_FULL
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
            order_jobs(sim, plan)
        row = next_start(sim, plan)
        if row == NOBODY:
            m["phase"] = ASLEEP
        else:
            steps = sim.sub_batches[sim.jobs[row]["job_class"], m["option"], 0]["sub_steps"]
            if start(sim, row, EXPLICIT, sim.jobs[row]["gpus"], True, steps) == BUFFER_FULL:
                m["at"] -= 1
                return LOG_FULL
