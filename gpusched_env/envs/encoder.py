"""The encoder of one simulation: windows on waiting and running jobs, action mask, observation arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpusched_env.core.events import preempt_refusal
from gpusched_env.core.queries import find_place_beside
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.state import WAITING
from gpusched_env.envs.batch import NO_LIMIT, Batch
from gpusched_env.envs.fresh_rows import FreshRows
from gpusched_env.envs.step import NO_ACTION
from gpusched_env.envs.tenant_limits import check_tenants, exceeds_limits
from gpusched_env.envs.windows import Windows, widest_windows
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.simulator import ClairvoyantView, ClusterView
from gpusched_env.simulator.decisions import Decision, Preempt, Refuse, Resize, Start, Wait

Observation = dict[str, np.ndarray]


class Encoder:
    """Encodes one simulation through windows.

    Attributes
    ----------
    mask : int8 [actions], feasible actions after the last :meth:`play`
    queue_slots : int32 [K], job rows in the queue slots; -1 = empty
    running_slots : int32 [V], job rows in the running slots; -1 = empty
    partner_slots : int32 [C], job rows of running gangs that a waiting job may join; -1 = empty
    results : float64 [5 + components], results of the last step; columns in gpusched_env.envs.step_results

    Raises
    ------
    ScenarioError : the windows have sharing actions, but jobs do not share GPUs
    """

    def __init__(
        self,
        windows: Windows,
        simulation: Any,
        skip_forced_waits: bool = True,
        weights: Mapping[str, float] | None = None,
        step_limit: int | None = None,
        refusal_cost: float = 0.0,
    ) -> None:
        instance = simulation.instance
        windows.check_sharing(instance.sharing is not None)
        self.windows = windows
        self.simulation = simulation
        axes = windows.axes(instance.room, instance.semantics, instance.sharing is not None)
        self.batch = Batch(
            windows, axes, [simulation.arrays], skip_forced_waits, weights or {}, refusal_cost=refusal_cost
        )
        check_tenants(instance, windows.tenant_window, windows.limits)
        self.batch.begin(0, instance, NO_LIMIT if step_limit is None else step_limit)
        self._bind()

    def _bind(self) -> None:
        """Bind the arrays that every step needs."""
        self._rows = FreshRows(self.batch)
        self._is_taken = True
        self._drain = self.simulation.drain
        self._play, self._action = self.batch.play, self.batch.action
        self._episode = self.batch.episodes[0]
        self.results, self.mask = self.batch.results[0], self.batch.mask[0]
        self.queue_slots, self.running_slots = self.batch.queue_slots[0], self.batch.running_slots[0]
        self.partner_slots = self.batch.partner_slots[0]

    @property
    def is_over_limit(self) -> bool:
        """Whether the step limit was reached, so that the rest of the run was played without the agent."""
        return bool(self._episode["playing_out"])

    @property
    def is_refused(self) -> bool:
        """Whether the last action was infeasible, so that it changed nothing."""
        return bool(self._episode["is_refused"])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what refers to the arrays: a copy has arrays of its own."""
        return {name: self.__dict__[name] for name in ("windows", "simulation", "batch")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Bind the arrays of the copied simulation."""
        self.__dict__.update(kept)
        self.batch.bind([self.simulation.arrays])
        self._bind()

    @classmethod
    def for_view(cls, windows: Windows, view: ClusterView) -> Encoder:
        """Return an encoder of the simulation behind a scheduler's view.

        Raises
        ------
        GpuschedError : the windows show run times, but the view does not
        """
        if windows.clairvoyant and not isinstance(view, ClairvoyantView):
            raise GpuschedError("the windows show run times, the view does not: declare the scheduler clairvoyant")
        return cls(windows, view._simulation, skip_forced_waits=False)

    def play(self, action: int) -> tuple[Observation, int, bool]:
        """Play an action (or step.NO_ACTION, step.RESUME) and return what the windows then show.

        Returns
        -------
        observation : fresh arrays
        outcome : an Outcome of the simulation
        refused : whether the action was infeasible, so that nothing changed
        """
        self.step(action)
        episode = self._episode
        return self.observation(), int(episode["outcome"]), self.is_refused

    def step(self, action: int) -> bool:
        """Play an action as :meth:`play` does, write ``results``, and return whether the episode is over."""
        self._is_taken = False
        self._action[0] = action
        bits = self._play(0, 1)
        return bits != 0 and self.batch.finish_step(bits, self._drain)

    def take(self) -> tuple[Observation, np.ndarray]:
        """Return the observation and the mask, int8 [actions], in fresh arrays."""
        if self._is_taken:
            self.step(NO_ACTION)
        self._is_taken = True
        return self._rows.take()

    def observation(self) -> Observation:
        """Return the observation in fresh arrays."""
        return self.take()[0]

    def state(self) -> np.ndarray:
        """Return the state of the episode and of its observation, uint8 [bytes]; equal for equal states."""
        row = self.batch.row[0]  # where this encoder writes its next observation
        self.batch.row[0] = 0
        state: np.ndarray = self.batch.arrays.storage[0].copy()
        self.batch.row[0] = row
        return state

    def restore(self, state: np.ndarray) -> None:
        """Continue from a state; the state of the simulation must be restored before."""
        row = self.batch.row[0]
        self.batch.arrays.storage[0] = state
        self.batch.row[0] = row
        self._is_taken = True  # nothing has been written to that row yet

    def exceeds_limits(self, job: int) -> bool:
        """Return whether the mask would forbid to start a waiting job because of a limit of its tenant."""
        return self.windows.limits and bool(exceeds_limits(self.simulation.arrays, self.batch.handle(0), job))

    def decision_of(self, action: int) -> Decision | None:
        """Return the decision that an action stands for now; None = wait for the next event."""
        windows = self.windows
        if action < windows.first_resize:
            return self._start_of(action)
        if action < windows.first_preemption:
            slot, place = divmod(action - windows.first_resize, windows.slot_resizes)
            rule, size = divmod(place, len(windows.sizes))
            return Resize(int(self.running_slots[slot]), windows.sizes[size], windows.rules[rule])
        if action < windows.wait_action:
            return Preempt(int(self.running_slots[action - windows.first_preemption]))
        if action == windows.wait_action:
            return None
        return Wait(self.simulation.now_s + windows.delays_s[action - windows.wait_action - 1])

    def _start_of(self, action: int) -> Start:
        windows = self.windows
        slot, place = divmod(action, windows.slot_starts)
        place, size = divmod(place, windows.options)
        row = int(self.queue_slots[slot])
        if windows.sizes:
            return Start(row, windows.rules[place], size=windows.sizes[size])
        steps = self._sub_steps(row)
        named = int(steps[size]) if size < len(steps) else 0
        if place < len(windows.rules):
            return Start(row, windows.rules[place], sub_steps=named if windows.sub_batches else None)
        partner = int(self.partner_slots[place - len(windows.rules)])
        option = size if windows.sub_batches else -1
        both = find_place_beside(self.simulation.arrays, row, partner, option)
        count, option = both & 0xFFFFFFFF, both >> 32
        gpus = tuple(self.simulation.arrays.chosen[:count].tolist())
        return Start(row, gpus=gpus, share=True, sub_steps=int(steps[option]))

    def _sub_steps(self, row: int) -> np.ndarray:
        """int64 [sizes]: sub-steps of each sub-batch of a job; 0 = the job has no such sub-batch."""
        arrays = self.simulation.arrays
        sizes: np.ndarray = arrays.sub_batches["sub_steps"][arrays.jobs["job_class"][row], :, 0]
        return sizes

    def action_of(self, decision: Start | Preempt | Resize | Refuse) -> int | None:
        """Return the number of the action that makes a decision; None if it would be refused or change nothing.

        Raises
        ------
        SchedulerError : the job is in no slot; the message names windows that show every job
        GpuschedError : no action makes this decision: it refuses a job, the size is not among those that actions name,
            the rule is not enabled, the GPUs are explicit, or the sub-steps do not fit the sub-batches that actions can
            name
        """
        windows, jobs = self.windows, self.simulation.arrays.jobs
        if isinstance(decision, Refuse):
            raise GpuschedError(f"{decision} has no action: only direct runs refuse jobs")
        if not isinstance(decision, Preempt) and decision.gpus is not None:
            raise GpuschedError(f"{decision} has no action: only direct runs take explicit GPUs")
        if not 0 <= decision.job < len(jobs):
            return None
        if isinstance(decision, Start):
            if jobs["status"][decision.job] != WAITING:
                return None
        elif preempt_refusal(self.simulation.arrays, int(decision.job)) != APPLIED:
            return None
        if isinstance(decision, Resize) and jobs["gpus"][decision.job] == decision.size:
            return None
        if isinstance(decision, Preempt):
            slots, kind, first, step = self.running_slots, "running", windows.first_preemption, 1
        elif decision.rule not in windows.rules:
            raise GpuschedError(f"{decision}: make the environment with rules that include {decision.rule!r}")
        else:
            first = windows.rules.index(decision.rule) * windows.options + self._option_of(decision)
            slots, kind, step = self.queue_slots, "queue", windows.slot_starts
            if isinstance(decision, Resize):
                first += windows.first_resize
                slots, kind, step = self.running_slots, "running", windows.slot_resizes
        slot = np.flatnonzero(slots == decision.job)
        if len(slot):
            return int(first + step * slot[0])
        sizes = ", ".join(f"{name}={size}" for name, size in widest_windows(self.simulation.instance).items())
        raise SchedulerError(
            f"{decision}: job {decision.job} is in no slot of {kind}_window={len(slots)}, so no action makes this "
            f"decision. Make the environment with {sizes}, which show every job of this workload, or by "
            "gpusched_env.envs.scheduler_player.wide_open(scenario, seed)"
        )

    def _option_of(self, decision: Start | Resize) -> int:
        """Return the index of a decision's size or sub-batch among those that actions can name."""
        asked = int(self.simulation.arrays.jobs["gpus"][decision.job])
        if self.windows.sizes or isinstance(decision, Resize) or decision.size not in (None, asked):
            size = asked if decision.size is None else decision.size
            if size not in self.windows.sizes:
                raise GpuschedError(f"{decision}: make the environment with sizes that include {size}")
            return self.windows.sizes.index(size)
        sizes = self.windows.sub_batches
        if not sizes and decision.sub_steps is None:
            return 0
        steps = self._sub_steps(decision.job)[:sizes]
        if decision.sub_steps is None or decision.sub_steps not in steps:
            raise GpuschedError(
                f"{decision}: an action names one of {sizes} sub-batches, here of {steps.tolist()} sub-steps; make the "
                "environment with another sub_batches (0: actions name none, and sub_steps must be None)"
            )
        return int(np.flatnonzero(steps == decision.sub_steps)[0])
