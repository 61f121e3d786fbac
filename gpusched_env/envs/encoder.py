"""The encoder of one simulation: windows on waiting and running jobs, action mask, observation arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from gpusched_env.cluster import MOST_GPUS, TIERS
from gpusched_env.core.placement.rules import RULE_NUMBER, rule_number, shares_by
from gpusched_env.core.sharing.choices import BENEFIT
from gpusched_env.core.state import WAITING
from gpusched_env.envs.observation import columns
from gpusched_env.envs.observation.extras import EXTRAS, check_extras
from gpusched_env.envs.observation.sharing_columns import SHARING_TABLES
from gpusched_env.envs.observation.size_columns import SIZE_TABLES
from gpusched_env.envs.observation.tenant_columns import TENANT_TABLES
from gpusched_env.envs.observation.type_columns import TYPE_TABLES
from gpusched_env.errors import GpuschedError, ScenarioError, SchedulerError, unknown_name
from gpusched_env.instance import SHORTEST_ROUND_S, Instance, Semantics
from gpusched_env.simulator import ClairvoyantView, ClusterView
from gpusched_env.simulator.decisions import Decision, Preempt, Refuse, Resize, Start, Wait
from gpusched_env.units import LATEST_S
from gpusched_env.workload import MOST_JOBS

Observation = dict[str, np.ndarray]
STEPS_PER_JOB: Final = 100  # default of the step limit

# Orders in which a window shows jobs. Kernels use the index as the number of an order.
WINDOW_ORDERS: Final = ("arrival", "start", "shortest", "longest", "least-attained", "most-attained")
# Default of ``least_run_s``: a preemption may take at most a tenth of the time, as the slices of gandiva-lite.
_RUN_PER_PREEMPTION: Final = 10.0  # times what a preemption costs
_LEAST_RUN_S: Final = 60.0  # [s] also where preemption is free


@dataclass(frozen=True)
class Windows:
    """What an agent sees and may do; the fields are those of :class:`~gpusched_env.envs.cluster_env.ClusterEnv`.

    Raises
    ------
    ScenarioError : an unknown name or impossible value
    """

    queue_window: int = 32
    """Number of waiting jobs that the agent sees."""
    running_window: int = 8
    """Number of running jobs that the agent sees and may preempt; 0 = it never preempts."""
    rules: Sequence[str] = ("pack",)
    """Placement rules that the agent can choose."""
    delays_s: Sequence[float] = ()
    """Delays of bounded waits [s]."""
    queue_order: str = "arrival"
    """Order of the waiting jobs; the first ones are seen."""
    running_order: str = "most-attained"
    """Order of the running jobs; the first ones are seen."""
    clairvoyant: bool = True
    """Show remaining run times; if False, orders by run time are refused."""
    migration: bool = False
    """Allow preemption even while no job waits."""
    lease_s: float | None = None
    """Length of a gang's lease on its GPUs [s]; None = no leases."""
    least_run_s: float | None = None
    """Seconds for which a gang must have held its GPUs before an action may preempt it; None = ten preemption costs."""
    partner_window: int = 0
    """Number of running gangs shown beside which a job may start."""
    sub_batches: int = 0
    """Number of sub-batches that a start may name; 0 = starts name none."""
    pair_benefit: bool = True
    """Show how much a waiting job and a partner gain by sharing."""
    extras: Sequence[str] = ()
    """Registered observation arrays to show."""
    sizes: Sequence[int] = ()
    """Numbers of GPUs on which an action may start or resize an elastic job; empty = jobs keep those they request."""
    tenant_window: int = 0
    """Number of tenants that the observation has rows for; 0 = it shows none."""
    limits: bool = False
    """Mask starts and resizes by which a tenant would hold more GPUs than it may."""

    def __post_init__(self) -> None:
        """Check every field."""
        for name, least in (
            ("queue_window", 1),
            ("running_window", 0),
            ("partner_window", 0),
            ("sub_batches", 0),
            ("tenant_window", 0),
        ):
            if not least <= getattr(self, name) <= MOST_JOBS:
                raise ScenarioError(
                    f"{name} is {getattr(self, name)}: it must be at least {least} and at most {MOST_JOBS}"
                )
        if not self.rules:
            raise ScenarioError(f"rules is empty: name at least one of {', '.join(RULE_NUMBER)}")
        for rule in self.rules:
            try:
                rule_number(rule)
            except GpuschedError as error:
                raise ScenarioError(f"rules: {error}") from None
            if shares_by(rule) & BENEFIT and not self.clairvoyant:
                raise ScenarioError(f"rules: {rule!r} needs run times, but clairvoyant is False")
        if not all(SHORTEST_ROUND_S <= delay <= LATEST_S for delay in self.delays_s):
            raise ScenarioError(
                f"delays_s is {tuple(self.delays_s)}: every delay must be {SHORTEST_ROUND_S:g} to {LATEST_S:g} seconds"
            )
        for name, order in (("queue_order", self.queue_order), ("running_order", self.running_order)):
            known = WINDOW_ORDERS if name == "running_order" else [o for o in WINDOW_ORDERS if o != "start"]
            if order not in known:
                raise ScenarioError(f"{name}: {unknown_name('order', order, known)}")
            if order in ("shortest", "longest") and not self.clairvoyant:
                others = ", ".join(repr(one) for one in known if one not in ("shortest", "longest"))
                raise ScenarioError(f"{name}={order!r} needs run times, but clairvoyant is False; choose {others}")
        if self.lease_s is not None and not SHORTEST_ROUND_S <= self.lease_s <= LATEST_S:
            raise ScenarioError(
                f"lease_s is {self.lease_s}: give {SHORTEST_ROUND_S:g} to {LATEST_S:g} seconds, or None for no leases"
            )
        if self.least_run_s is not None and not 0 <= self.least_run_s <= LATEST_S:
            raise ScenarioError(
                f"least_run_s is {self.least_run_s}: give 0 to {LATEST_S:g} seconds, or None for ten times the "
                "cost of a preemption; running_window=0 forbids all preemptions"
            )
        if not all(1 <= size <= MOST_GPUS and size % 1 == 0 for size in self.sizes) or list(self.sizes) != sorted(
            set(self.sizes)
        ):
            raise ScenarioError(f"sizes is {tuple(self.sizes)}: give ascending whole numbers of GPUs, each at least 1")
        if self.sizes and (self.partner_window or self.sub_batches):
            raise ScenarioError("sizes: elastic jobs do not share GPUs; set partner_window and sub_batches to 0")
        if self.limits and not self.tenant_window:
            raise ScenarioError("limits: set tenant_window to the number of tenants, so that the agent sees them")
        check_extras(self.extras)
        object.__setattr__(self, "extras", tuple(self.extras))
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        object.__setattr__(self, "delays_s", tuple(float(delay) for delay in self.delays_s))

    @property
    def options(self) -> int:
        """Number of start actions by one rule: one for each sub-batch or size that a start may name, at least 1."""
        return max(self.sub_batches, len(self.sizes), 1)

    @property
    def slot_starts(self) -> int:
        """Number of start actions per queue slot: by each rule and beside each partner, at each sub-batch or size."""
        return (len(self.rules) + self.partner_window) * self.options

    @property
    def slot_resizes(self) -> int:
        """Number of resize actions per running slot: by each rule, to each size."""
        return len(self.rules) * len(self.sizes)

    @property
    def first_resize(self) -> int:
        """Number of the first action that resizes running slot 0; that of the first preemption if there are none."""
        return self.queue_window * self.slot_starts

    @property
    def first_preemption(self) -> int:
        """Number of the action that preempts running slot 0."""
        return self.first_resize + self.running_window * self.slot_resizes

    @property
    def wait_action(self) -> int:
        """Number of the action that waits for the next event."""
        return self.first_preemption + self.running_window

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.wait_action + 1 + len(self.delays_s)

    def least_run_in(self, semantics: Semantics) -> float:
        """Return the time for which a gang must have held its GPUs before an action may preempt it [s]."""
        if self.least_run_s is not None:
            return self.least_run_s
        return max(_LEAST_RUN_S, _RUN_PER_PREEMPTION * (semantics.checkpoint_s + semantics.restore_s))

    def checked(self, action: Any) -> int:
        """Return the action as a plain int.

        Raises
        ------
        GpuschedError : the action is not an integer of the action space
        """
        try:
            number = int(action)
            whole = number == action
        except (TypeError, ValueError, OverflowError):
            number, whole = -1, False
        if not whole or not 0 <= number < self.actions:
            raise GpuschedError(
                f"action {action!r} is not a whole number from 0 to {self.actions - 1}; "
                "choose one that info['action_mask'] marks with 1"
            )
        return number

    def check_sharing(self, shares: bool) -> None:
        """Refuse sharing actions in a scenario whose jobs do not share GPUs.

        Raises
        ------
        ScenarioError : jobs do not share GPUs, but ``partner_window`` or ``sub_batches`` is not 0
        """
        for name in ("partner_window", "sub_batches"):
            if getattr(self, name) and not shares:
                raise ScenarioError(
                    f"{name} is {getattr(self, name)}, but jobs of this scenario do not share GPUs; set it to 0 or "
                    "choose a scenario with sharing"
                )

    def shapes(self, nodes: int, links: int, types: int = 0, shares: bool = False) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the observation arrays.

        Parameters
        ----------
        nodes, links : numbers of nodes and links; 0 links = the network is priced by tiers
        types : number of GPU types that the observation distinguishes (:func:`observed_types`)
        shares : jobs may share GPUs
        """
        rows = {
            "queue": self.queue_window,
            "running": self.running_window,
            "nodes": nodes,
            "links": links or len(TIERS),
        }
        tables = columns.LINK_TABLES if links else columns.TABLES
        if links:
            rows["flows"] = self.running_window
        if types:
            tables = tables | TYPE_TABLES
            rows |= {"queue_types": self.queue_window * types, "forks": self.queue_window, "types": types}
            rows |= {"running_types": self.running_window * types, "copies": self.running_window, "node_types": nodes}
        if shares:
            tables = tables | SHARING_TABLES
            rows |= {"sub_batches": self.queue_window * max(self.sub_batches, 1), "company": self.running_window}
            rows |= {"partners": self.partner_window, "pairs": self.queue_window * self.partner_window}
        if self.sizes:
            tables = tables | SIZE_TABLES
            rows |= {"queue_sizes": self.queue_window * len(self.sizes)}
            rows |= {"running_sizes": self.running_window * len(self.sizes)}
        if self.tenant_window:
            tables = tables | TENANT_TABLES
            rows |= {"tenants": self.tenant_window}
            rows |= {"queue_tenants": self.queue_window, "running_tenants": self.running_window}
        shapes: dict[str, tuple[int, ...]] = {
            name: (rows[name], len(table)) if name in rows else (len(table),) for name, table in tables.items()
        }
        extras = {name: (rows.get(EXTRAS[name].rows, 1), len(EXTRAS[name].columns)) for name in self.extras}
        return shapes | extras

    def space(self, nodes: int, links: int, types: int = 0, shares: bool = False) -> dict[str, spaces.Space[Any]]:
        """Return the observation spaces; empty arrays are left out, since no learner accepts them."""
        shapes = self.shapes(nodes, links, types, shares)
        return {key: spaces.Box(0.0, 1.0, shape, np.float32) for key, shape in shapes.items() if shape[0] > 0}


def observed_types(types: int, semantics: Semantics) -> int:
    """Return the number of GPU types that the observation distinguishes; 0 = one type and no copies."""
    return types if types > 1 or semantics.max_copies > 1 else 0


def widest_windows(instance: Instance) -> dict[str, int]:
    """Return the smallest windows that always show every waiting and running job of an instance."""
    jobs = len(instance.workload)
    return {"queue_window": jobs, "running_window": min(instance.cluster.gpus * instance.gpu_jobs, jobs)}


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
        from gpusched_env.envs.batch import NO_LIMIT, Batch
        from gpusched_env.envs.tenant_limits import check_tenants

        instance = simulation.instance
        windows.check_sharing(instance.sharing is not None)
        self.windows = windows
        self.simulation = simulation
        room = instance.room
        types = observed_types(room.types, instance.semantics)
        shapes = windows.shapes(room.nodes, room.links, types, instance.sharing is not None)
        self.batch = Batch(
            windows, shapes, [simulation.arrays], skip_forced_waits, weights or {}, refusal_cost=refusal_cost
        )
        check_tenants(instance, windows.tenant_window, windows.limits)
        self.batch.begin(0, instance, NO_LIMIT if step_limit is None else step_limit)
        self._bind()

    def _bind(self) -> None:
        """Bind the arrays that every step needs."""
        from gpusched_env.envs.fresh_rows import FreshRows

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
        bits = self._play()
        return bits != 0 and self.batch.finish_step(bits, self._drain)

    def take(self) -> tuple[Observation, np.ndarray]:
        """Return the observation and the mask, int8 [actions], in fresh arrays."""
        if self._is_taken:
            from gpusched_env.envs.step import NO_ACTION

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
        from gpusched_env.envs.tenant_limits import exceeds_limits

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
        from gpusched_env.core.queries import find_place_beside

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
        from gpusched_env.core.events import preempt_refusal
        from gpusched_env.core.refusals import APPLIED

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
