"""Carry decisions out one by one, and say what each came to: the one way in which entries write it."""

from __future__ import annotations

import numpy as np

from gpusched_env.simulator import Decision, Lease, Preempt, Simulation, Start, Wait
from gpusched_env.simulator.taking import FREE


class Carrying(Simulation):
    """A simulation that says what the latest decision came to."""

    def carry_out(self, decision: Decision) -> Decision | None:
        """Apply a decision; None = it is refused, :attr:`refusal` says why.

        A start then names its GPUs; whether it shares one; and its sub-steps, where they can differ. A lease names the
        time at which it ends, in rounds that of a round.
        """
        was_free = None if self.instance.gpu_jobs == 1 else self._free_gpus()
        if Simulation.apply(self, decision):
            return None
        if isinstance(decision, Start):
            return self._started(int(decision.job), was_free)
        if isinstance(decision, Lease):
            replica = self.state.jobs["replica"][self.b, decision.job]
            return Lease(int(decision.job), float(self.state.replicas["lease_s"][self.b, replica]))
        return Wait(float(decision.until_s)) if isinstance(decision, Wait) else Preempt(int(decision.job))

    def _free_gpus(self) -> np.ndarray:
        """Boolean [G]: nobody holds the GPU."""
        free: np.ndarray = self.state.holder[self.b, : self._world["gpus"]] == FREE
        return free

    def _started(self, job: int, was_free: np.ndarray | None) -> Start:
        """Tell what a start has just got, from its event."""
        event = self.state.events[self.b, self._world["events"] - 1]
        end = int(self._world["event_gpus"])
        gpus = tuple(self.state.event_gpus[self.b, end - int(event["gpu_count"]) : end].tolist())
        if self.instance.sharing is None:
            return Start(job, gpus=gpus)
        shares = was_free is not None and not bool(was_free[list(gpus)].all())
        return Start(job, gpus=gpus, share=shares, sub_steps=int(event["sub_steps"]))
