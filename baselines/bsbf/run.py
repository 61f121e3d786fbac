"""One run of SJF-FFS or SJF-BSBF in a compiled loop."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.bsbf import kernels
from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.simulator import Simulation


class SharingRun(CompiledLoop):
    """Simulate a run from its first event on under SJF-FFS or SJF-BSBF.

    Parameters
    ----------
    simulation : a simulation before its first event
    by_size : True = order waiting jobs by remaining run time; False = by arrival
    strict : True = the first job that does not fit blocks all jobs behind it; False = such jobs are skipped
    choices : flags of :mod:`gpusched_env.core.sharing.choices`
    round_s : decide only at multiples of this time [s]; 0 = decide at every event
    """

    def __init__(self, simulation: Simulation, by_size: bool, strict: bool, choices: int, round_s: float) -> None:
        jobs = len(simulation.instance.workload)
        memory = np.zeros((), kernels.QUEUE_DTYPE)
        for name, value in (("by_size", by_size), ("strict", strict), ("choices", choices), ("round_s", round_s)):
            memory[name] = value
        line = kernels.Line(
            memory=memory,
            order=np.zeros(jobs, np.int32),
            scratch=np.zeros(jobs, np.int32),
            keys=np.zeros(jobs),
            ranks=np.zeros(jobs),
        )
        super().__init__(simulation, kernels.play_shared, memory, line)
