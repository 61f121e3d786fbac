"""The encoder of one simulation: windows on waiting and running jobs, action mask, observation arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

import numpy as np

from gpusched_env.core.events import preempt_refusal
from gpusched_env.core.queries import find_place_beside
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.state import RUNNING, WAITING, State
from gpusched_env.envs.actions import PREEMPT, RESIZE, SLOT_ACTIONS, START, WAIT, Action, meaning_of, number_of
from gpusched_env.envs.batch import NO_LIMIT, Batch
from gpusched_env.envs.checks import check_tenants
from gpusched_env.envs.step import NO_ACTION
from gpusched_env.envs.tenant_limits import exceeds_limits
from gpusched_env.envs.windows import Windows, widest_windows
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.simulator import ClairvoyantView, ClusterView
from gpusched_env.simulator.decisions import Decision, Preempt, Refuse, Resize, Start, Wait

Observation = dict[str, np.ndarray]

ROWS: Final = 64  # observations allocated together: to allocate ten small arrays costs as much as a step


class Encoder:
    """Encodes one simulation through windows, as a batch of one.

    ``mask``, the slots and ``results`` are those of :class:`Batch`, after the last :meth:`step`. ``state_of_run`` holds
    the arrays of the simulation if another run may begin in them; a copy has none.
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
        planned = len(instance.workload.profiles.plans) > 0
        axes = windows.axes(instance.room, instance.semantics, instance.sharing is not None, planned)
        self.batch = Batch(
            windows, axes, [simulation.arrays], skip_forced_waits, weights or {}, refusal_cost=refusal_cost
        )
        check_tenants(instance, windows)
        self.batch.begin(0, instance, NO_LIMIT if step_limit is None else step_limit)
        self._bind()

    def again(self, simulation: Any, step_limit: int | None) -> None:
        """Encode another run of the same scenario, which has begun in the arrays of the last one."""
        self.simulation, self._drain = simulation, simulation.drain
        self.batch.begin(0, simulation.instance, NO_LIMIT if step_limit is None else step_limit)
        self._is_taken = True

    def _bind(self) -> None:
        """Bind the arrays that every step needs."""
        self.state_of_run: State | None = None
        self._lay_out_rows()
        self._is_taken = True
        self._drain = self.simulation.drain
        self._play, self._action = self.batch.play, self.batch.action
        self._episode = self.batch.episodes[0]
        self.results, self.mask = self.batch.results[0], self.batch.mask[0]
        self.queue_slots, self.running_slots = self.batch.queue_slots[0], self.batch.running_slots[0]
        self.partner_slots = self.batch.partner_slots[0]

    def _lay_out_rows(self) -> None:
        """Allocate the next observations and masks that :meth:`take` returns, each once."""
        batch = self.batch
        block = np.empty((ROWS, batch.arrays.block.shape[1]), np.float32)
        masks = np.empty((ROWS, batch.mask.shape[1]), np.int8)
        batch.copy_into(block, masks)
        shown = {name: block[:, part].reshape(ROWS, *shape) for name, part, shape in batch.parts()}
        rows = map(dict, map(zip, repeat(tuple(shown)), zip(*shown.values(), strict=True)))
        self._rows = zip(rows, masks, range(1, ROWS + 1), strict=True)
        batch.row[0] = 0

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
        """Return an encoder of the simulation behind a scheduler's view, which must show what the windows show."""
        if windows.clairvoyant and not isinstance(view, ClairvoyantView):
            raise GpuschedError("the windows show run times, the view does not: declare the scheduler clairvoyant")
        return cls(windows, view._simulation, skip_forced_waits=False)

    def step(self, action: int) -> bool:
        """Play an action (or step.NO_ACTION, RESUME), write ``results``, and return whether the episode is over."""
        self._is_taken = False
        self._action[0] = action
        bits = self._play()
        over = bits != 0 and self.batch.finish_step(bits, self._drain)
        if self.windows.predictor and self.batch.foresee(0, self.simulation):
            self.batch.write_again([0])
        return over

    def take(self) -> tuple[Observation, np.ndarray]:
        """Return the observation and the mask, int8 [actions], in fresh arrays."""
        if self._is_taken:
            self.step(NO_ACTION)
        self._is_taken = True
        observation, mask, following = next(self._rows)
        if following < ROWS:
            self.batch.row[0] = following
        else:
            self._lay_out_rows()
        return observation, mask

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
        self.batch.forget(0)
        self._is_taken = True  # nothing has been written to that row yet

    def exceeds_limits(self, job: int) -> bool:
        """Return whether the mask would forbid to start a waiting job because of a limit of its tenant."""
        return self.windows.limits and bool(exceeds_limits(self.simulation.arrays, self.batch.handle(0), job))

    def meaning_of(self, action: int) -> Action:
        """Return what an action means, with the row of the job that it is about now."""
        meant = meaning_of(self.windows, action)
        if meant.slot is None:
            return meant
        job = int(self._slots_of(meant.kind)[meant.slot])
        return replace(meant, job=job if job >= 0 else None)

    def _slots_of(self, kind: str) -> np.ndarray:
        """Return the rows of the jobs in the slots that a kind of action is about."""
        slots = SLOT_ACTIONS[kind].slots if kind in SLOT_ACTIONS else "queue" if kind == START else "running"
        return self.queue_slots if slots == "queue" else self.running_slots

    def decision_of(self, action: int) -> Decision | None:
        """Return the decision that an action stands for now; None = wait for the next event."""
        meant = self.meaning_of(action)
        if meant.kind == WAIT:
            return None if meant.delay_s is None else Wait(self.simulation.now_s + meant.delay_s)
        job = -1 if meant.job is None else meant.job
        if meant.kind == START:
            return self._start_of(meant, job)
        if meant.kind == RESIZE:
            assert meant.size is not None
            assert meant.rule is not None
            return Resize(job, meant.size, meant.rule)
        return Preempt(job) if meant.kind == PREEMPT else SLOT_ACTIONS[meant.kind].decision(job)

    def _start_of(self, meant: Action, row: int) -> Start:
        if meant.size is not None:
            assert meant.rule is not None
            return Start(row, meant.rule, size=meant.size)
        steps = self._sub_steps(row)
        named = meant.sub_batch
        if meant.rule is not None:
            sub_steps = None if named is None else int(steps[named]) if named < len(steps) else 0
            return Start(row, meant.rule, sub_steps=sub_steps)
        assert meant.partner is not None
        partner = int(self.partner_slots[meant.partner])
        both = find_place_beside(self.simulation.arrays, row, partner, -1 if named is None else named)
        count, option = both & 0xFFFFFFFF, both >> 32
        gpus = tuple(self.simulation.arrays.chosen[:count].tolist())
        return Start(row, gpus=gpus, share=True, sub_steps=int(steps[option]))

    def _sub_steps(self, row: int) -> np.ndarray:
        """int64 [sizes]: sub-steps of each sub-batch of a job; 0 = the job has no such sub-batch."""
        arrays = self.simulation.arrays
        sizes: np.ndarray = arrays.sub_batches["sub_steps"][arrays.jobs["job_class"][row], :, 0]
        return sizes

    def action_of(self, decision: Start | Preempt | Resize | Refuse) -> int | None:
        """Return the number of the action that makes a decision; None if it would be refused or change nothing."""
        windows, jobs = self.windows, self.simulation.arrays.jobs
        kind = self._kind_of(decision)
        slots, row = self._slots_of(kind), self.simulation.row_of(decision)
        if row < 0 or jobs["status"][row] != (WAITING if slots is self.queue_slots else RUNNING):
            return None
        if kind in (RESIZE, PREEMPT) and preempt_refusal(self.simulation.arrays, row) != APPLIED:
            return None
        options: dict[str, Any] = {}
        if isinstance(decision, Start | Resize):
            if isinstance(decision, Resize) and jobs["gpus"][row] == decision.size:
                return None
            if decision.rule not in windows.rules:
                raise GpuschedError(f"{decision}: make the environment with rules that include {decision.rule!r}")
            options = {"rule": decision.rule} | self._option_of(decision)
        slot = np.flatnonzero(slots == row)
        if len(slot):
            action = number_of(windows, Action(kind, int(slot[0]), **options))
            return None if kind in SLOT_ACTIONS and not self.mask[action] else action
        name = "queue" if slots is self.queue_slots else "running"
        sizes = ", ".join(f"{name}={size}" for name, size in widest_windows(self.simulation.instance).items())
        raise SchedulerError(
            f"{decision}: job {row} is in no slot of {name}_window={len(slots)}, so no action makes this "
            f"decision. Make the environment with {sizes}, which show every job of this workload"
        )

    def _kind_of(self, decision: Start | Preempt | Resize | Refuse) -> str:
        """Return the kind of the action that makes a decision."""
        if isinstance(decision, Start | Resize):
            if decision.gpus is not None:
                raise GpuschedError(f"{decision} has no action: only direct runs take explicit GPUs")
            return START if isinstance(decision, Start) else RESIZE
        if isinstance(decision, Preempt):
            return PREEMPT
        kinds = [kind for kind, one in SLOT_ACTIONS.items() if one.decision is type(decision)]
        for kind in kinds:
            if kind in self.windows.more_actions:
                return kind
        if not kinds:
            raise GpuschedError(f"{decision!r} has no action: give an Action, or a Start, Preempt, Resize or Refuse")
        raise GpuschedError(f"{decision} has no action: make the environment with more_actions={tuple(kinds)}")

    def _option_of(self, decision: Start | Resize) -> dict[str, int]:
        """Return the size or the number of the sub-batch that the action of a decision names."""
        asked = int(self.simulation.arrays.jobs["gpus"][decision.job])
        if self.windows.sizes or isinstance(decision, Resize) or decision.size not in (None, asked):
            size = asked if decision.size is None else decision.size
            if size not in self.windows.sizes:
                raise GpuschedError(f"{decision}: make the environment with sizes that include {size}")
            return {"size": size}
        sizes = self.windows.sub_batches
        if not sizes and decision.sub_steps is None:
            return {}
        steps = self._sub_steps(decision.job)[:sizes]
        if decision.sub_steps is None or decision.sub_steps not in steps:
            raise GpuschedError(
                f"{decision}: an action names one of {sizes} sub-batches, here of {steps.tolist()} sub-steps; make the "
                "environment with another sub_batches (0: actions name none, and sub_steps must be None)"
            )
        return {"sub_batch": int(np.flatnonzero(steps == decision.sub_steps)[0])}
