"""One run under delay scheduling, and what its timers may read and change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.baselines.dally import tuning as delay_tuning
from gpusched_env.baselines.dally import victims as delay_victims
from gpusched_env.baselines.dally.state import GROW, MACHINE_WAITS, RACK_WAITS, SORT, VERDICT_DTYPE, Delay
from gpusched_env.core.queries import Asked
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Outcome, Simulation
from gpusched_env.simulator.compiled import Player

if TYPE_CHECKING:
    from gpusched_env.baselines.dally.scheduler import Dally
    from gpusched_env.baselines.dally.timers import Timers

__all__ = ["DelayRun"]


class DelayRun(Player):
    """Simulate a problem instance under a delay scheduler, at once or in several parts.

    Parameters
    ----------
    scheduler : the rules; all state is in this object, so one scheduler may be used for many runs
    seed : seed of the simulation, which only random placement uses
    simulation : a simulation before its first event; None = create a new one
    timers : object that sets the timers; None = that of the scheduler
    keep_verdicts : whether to record every acceptance and refusal, see :attr:`verdicts`

    Examples
    --------
    >>> run = DelayRun(instance, Dally(tuner="off"))
    >>> while run.play(run.simulation.now_s + 1800.0) is Outcome.DECIDE:
    ...     run.waits_s[:] = 600.0
    """

    takes_over = False

    def __init__(
        self,
        instance: Instance,
        scheduler: Dally,
        seed: int = 0,
        simulation: Simulation | None = None,
        timers: Timers | None = None,
        keep_verdicts: bool = False,
    ) -> None:
        scheduler.check_parameters()
        super().__init__(scheduler, Simulation(instance, seed) if simulation is None else simulation)
        assert isinstance(self.own, Delay)
        self.delay = self.own
        if keep_verdicts:
            self.delay.replace("verdicts", np.zeros(4096, VERDICT_DTYPE))
        self._places = scheduler.places_for(instance.cluster)
        self._rules["sorted"] = self._places is not None
        self.timers = scheduler.timers_for() if timers is None else timers
        self._rules["tuned"] = self.timers.by_hand
        self._rules["next_tune_s"] = self.timers.interval_s
        self.timers.begin(self)
        self.simulation.wake_at(self.timers.interval_s)

    @property
    def _rules(self) -> np.void:
        return self.delay.rules

    # --- play

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Continue the run, as :meth:`Player.play` does.

        Timers that the caller sets when the run stops already apply to the decisions of this time.
        """
        if self.timers.by_hand:  # the caller may have changed the factors
            self.tune_by_hand()
        outcome = super().play(until_s, tell)
        if outcome is Outcome.DECIDE and self.simulation.now_s >= self._rules["next_tune_s"]:
            self.tune()  # before the caller sets timers
        return outcome

    def assist(self) -> None:
        """Do what the policy asks for."""
        if self._rules["asks"] == GROW:
            self.grow()
        elif self._rules["asks"] == SORT:
            self.sort_places()
        else:
            self.tune()

    def tune(self) -> None:
        """Let the timers object set the timers, and compute when it sets them next."""
        self.timers.tune(self)
        now_s, interval_s = self.simulation.now_s, self.timers.interval_s
        number = math.floor(now_s / interval_s) + 1
        # The division may round down: without this step the clock would not advance.
        number += number * interval_s <= now_s
        self._rules["next_tune_s"] = number * interval_s

    def grow(self) -> None:
        """Double the arrays whose size has no bound: histories, scheduled offers, verdicts."""
        for name in ("samples", "offers", "verdicts"):
            array = getattr(self.delay, name)
            self.delay.replace(name, np.concatenate([array, np.zeros_like(array)], axis=-1))

    def sort_places(self) -> None:
        """Let the scheduler's function sort the slots and machines with GPUs on offer."""
        assert self._places is not None
        self._places.sort(self.delay)
        self._rules["unsorted"] = 0

    def tune_by_hand(self) -> None:
        """Set the timers of all demand classes from their histories."""
        delay_tuning.tune_all(self.delay)

    # --- state that a tuner may read

    @property
    def waits_s(self) -> np.ndarray:
        """float64 [G + 1, 2] [s], writable: wait for a rack and wait for the network, by gang size; inf = for ever."""
        return self.delay.waits_s

    @property
    def factors(self) -> np.ndarray:
        """float64 [G + 1, 2], writable: factors on the hand tuner's timers; they apply from the next ``play`` on."""
        return self.delay.factors

    @property
    def waiting(self) -> np.ndarray:
        """int32: rows of the waiting jobs, in the order in which they are asked."""
        return self.delay.queue[: self._rules["queued"]].copy()

    @property
    def gangs(self) -> np.ndarray:
        """int32 [J] [GPU]: gang size of every job; a tuner must read only those of jobs that have arrived."""
        return self.delay.tasks["gpus"]

    def history(self, gang: int) -> tuple[np.ndarray, np.ndarray]:
        """SAMPLE_DTYPE, twice: recorded waits of a gang size that ended on a machine, and that ended in a rack."""
        demand = self.delay.demands[gang]
        if demand < 0:
            empty = self.delay.samples[0, 0, :0]
            return empty, empty
        counts = self.delay.counts[demand]
        machine, rack = self.delay.samples[demand]
        return machine[: counts[MACHINE_WAITS]].copy(), rack[: counts[RACK_WAITS]].copy()

    def nw(self, rows: np.ndarray) -> np.ndarray:
        """float64: network sensitivity Nw of each of the jobs ``rows``; 0 = it has not run yet."""
        asked = Asked(rows=np.ascontiguousarray(rows, np.int32), answers=np.empty((1, len(rows))))
        delay_victims.nw_now(self.simulation.arrays, self.delay, asked)
        return asked.answers[0]

    @property
    def verdicts(self) -> np.ndarray:
        """VERDICT_DTYPE: the tier that each asked job took, or its refusal; empty unless ``keep_verdicts`` is set."""
        return self.delay.verdicts[: self._rules["verdicts"]].copy()
