"""One run of SJF-FFS or SJF-BSBF in a compiled loop."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines import sharing_kernels as kernels
from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.simulator import Simulation
from gpusched_env.simulator.calls import find_table
from gpusched_env.simulator.jit import announce_compilation


class SharingRun(CompiledLoop):
    """Play a simulation from its first event.

    Parameters
    ----------
    simulation : before its first event
    by_size : order waiting jobs by run time left, else by arrival
    strict : the first job that does not fit blocks all behind it
    choices : flags of :mod:`gpusched_env.core.sharing_choices`
    round_s : decide at its multiples only; 0 = at every event [s]
    """

    def __init__(self, simulation: Simulation, by_size: bool, strict: bool, choices: int, round_s: float) -> None:
        announce_compilation("play_shared")
        state, jobs = simulation.state, len(simulation.instance.workload)
        memory = np.zeros(1, kernels.QUEUE_DTYPE)
        for name, value in (("by_size", by_size), ("strict", strict), ("choices", choices), ("round_s", round_s)):
            memory[name] = value
        # kept, since it holds the arrays whose addresses it tells; those of moves are kept by the simulation
        self._places = find_table(state)
        arguments = (
            state.world,
            state.jobs,
            state.replicas,
            state.running,
            state.sub_batches,
            simulation.b,
            simulation.moves,
            self._places.table,
            memory,
            np.zeros(jobs, np.int32),  # order
            np.zeros(jobs, np.int32),  # scratch
            np.zeros(jobs),  # keys
            np.zeros(jobs),  # ranks
        )
        super().__init__(simulation, kernels.play_shared, memory, arguments)
