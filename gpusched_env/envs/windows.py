"""The windows through which agents see and act on a simulation, and the numbers of their actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.core.placement.rules import RULE_NUMBER, rule_number, shares_by
from gpusched_env.core.registering import check_named
from gpusched_env.core.sharing.choices import BENEFIT
from gpusched_env.envs import deadlines  # noqa: F401 - registers what its name says
from gpusched_env.envs.actions import SLOT_ACTIONS, carry_out, may_act
from gpusched_env.envs.observation.registry import optional_arrays, write_array
from gpusched_env.errors import GpuschedError, ScenarioError, unknown_name
from gpusched_env.prediction.predictors import find_predictor
from gpusched_env.problem.cluster import MOST_GPUS, TIERS
from gpusched_env.problem.instance import SHORTEST_ROUND_S, Instance, Room, Semantics
from gpusched_env.problem.workload import MOST_JOBS
from gpusched_env.support.units import LATEST_S

STEPS_PER_JOB: Final = 100  # default of the step limit

# Orders in which a window shows jobs. Kernels use the index as the number of an order.
WINDOW_ORDERS: Final = ("arrival", "start", "shortest", "longest", "least-attained", "most-attained")
# Default of ``least_run_s``: a preemption may take at most a tenth of the time, as the slices of gandiva-lite.
_RUN_PER_PREEMPTION: Final = 10.0  # times what a preemption costs
_LEAST_RUN_S: Final = 60.0  # [s] also where preemption is free


@dataclass(frozen=True)
class Windows:
    """What an agent sees and may do; the fields are those of :class:`~gpusched_env.envs.cluster_env.ClusterEnv`."""

    queue_window: int = 32
    running_window: int = 8
    rules: Sequence[str] = ("pack",)
    delays_s: Sequence[float] = ()
    queue_order: str = "arrival"
    running_order: str = "most-attained"
    clairvoyant: bool = True
    migration: bool = False
    lease_s: float | None = None
    least_run_s: float | None = None
    partner_window: int = 0
    sub_batches: int = 0
    pair_benefit: bool = True
    extras: Sequence[str] = ()
    sizes: Sequence[int] = ()
    tenant_window: int = 0
    limits: bool = False
    more_actions: Sequence[str] = ()
    predictor: str = ""

    def __post_init__(self) -> None:
        """Check every field, and make tuples of the sequences."""
        for name in ("queue_window", "running_window", "partner_window", "sub_batches", "tenant_window"):
            least, count = int(name == "queue_window"), getattr(self, name)
            if not least <= count <= MOST_JOBS:
                raise ScenarioError(f"{name} is {count}: it must be at least {least} and at most {MOST_JOBS}")
        self._check_rules()
        self._check_seconds()
        self._check_orders()
        sizes = list(self.sizes)
        if not all(1 <= size <= MOST_GPUS and size % 1 == 0 for size in sizes) or sizes != sorted(set(sizes)):
            raise ScenarioError(f"sizes is {tuple(sizes)}: give ascending whole numbers of GPUs, each at least 1")
        if sizes and (self.partner_window or self.sub_batches):
            raise ScenarioError("sizes: elastic jobs do not share GPUs; set partner_window and sub_batches to 0")
        if self.limits and not self.tenant_window:
            raise ScenarioError("limits: set tenant_window to the number of tenants, so that the agent sees them")
        check_named("extras", "observation array", self.extras, optional_arrays())
        if self.predictor:
            try:
                find_predictor(self.predictor)
            except GpuschedError as error:
                raise ScenarioError(f"predictor: {error}") from None
        check_named("more_actions", "action", self.more_actions, SLOT_ACTIONS)
        for name in self.extras:
            write_array.prepare(optional_arrays()[name].number)
        for name in self.more_actions:
            for table in (may_act, carry_out):
                table.prepare(SLOT_ACTIONS[name].number)
        for name, kind in (("more_actions", str), ("extras", str), ("rules", str), ("sizes", int), ("delays_s", float)):
            object.__setattr__(self, name, tuple(kind(one) for one in getattr(self, name)))

    def _check_rules(self) -> None:
        """Refuse unknown placement rules, and those that need hidden run times."""
        if not self.rules:
            raise ScenarioError(f"rules is empty: name at least one of {', '.join(RULE_NUMBER)}")
        for rule in self.rules:
            try:
                rule_number(rule)
            except GpuschedError as error:
                raise ScenarioError(f"rules: {error}") from None
            if shares_by(rule) & BENEFIT and not self.clairvoyant:
                raise ScenarioError(f"rules: {rule!r} needs run times, but clairvoyant is False")

    def _check_seconds(self) -> None:
        """Refuse delays, leases and least run times out of range."""
        for name, values, least, more in (
            ("delays_s", self.delays_s, SHORTEST_ROUND_S, "each"),
            ("lease_s", (self.lease_s,), SHORTEST_ROUND_S, "or None for no leases"),
            (
                "least_run_s", (self.least_run_s,), 0.0,
                "or None for ten times the cost of a preemption; running_window=0 forbids all preemptions",
            ),
        ):  # fmt: skip
            if not all(value is None or least <= value <= LATEST_S for value in values):
                raise ScenarioError(f"{name} is {getattr(self, name)}: give {least:g} to {LATEST_S:g} seconds, {more}")

    def _check_orders(self) -> None:
        """Refuse unknown orders, and those that need hidden run times."""
        for name in ("queue_order", "running_order"):
            order = getattr(self, name)
            known = [one for one in WINDOW_ORDERS if name == "running_order" or one != "start"]
            if order not in known:
                raise ScenarioError(f"{name}: {unknown_name('order', order, known)}")
            if order in ("shortest", "longest") and not self.clairvoyant:
                others = ", ".join(repr(one) for one in known if one not in ("shortest", "longest"))
                raise ScenarioError(f"{name}={order!r} needs run times, but clairvoyant is False; choose {others}")

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
    def first_slot_action(self) -> int:
        """Number of the first action of ``more_actions``."""
        return self.wait_action + 1 + len(self.delays_s)

    def slots_of(self, name: str) -> int:
        """Return the number of actions of a kind of ``more_actions``: one for each slot."""
        return self.queue_window if SLOT_ACTIONS[name].slots == "queue" else self.running_window

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.first_slot_action + sum(self.slots_of(name) for name in self.more_actions)

    def least_run_in(self, semantics: Semantics) -> float:
        """Return the time for which a gang must have held its GPUs before an action may preempt it [s]."""
        if self.least_run_s is not None:
            return self.least_run_s
        return max(_LEAST_RUN_S, _RUN_PER_PREEMPTION * (semantics.checkpoint_s + semantics.restore_s))

    def checked(self, action: Any) -> int:
        """Return the action as a plain int; a GpuschedError if it is not an integer of the action space."""
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
        """Refuse, by a ScenarioError, sharing actions in a scenario whose jobs do not share GPUs."""
        for name in ("partner_window", "sub_batches"):
            if getattr(self, name) and not shares:
                raise ScenarioError(
                    f"{name} is {getattr(self, name)}, but jobs of this scenario do not share GPUs; set it to 0 or "
                    "choose a scenario with sharing"
                )

    def axes(self, room: Room, semantics: Semantics, shares: bool, planned: bool) -> dict[str, int]:
        """Return the lengths of the axes of the observation arrays (observation.registry.AXES), and three conditions.

        Parameters
        ----------
        room : numbers of nodes, links and GPU types that the observation has room for
        shares : jobs may share GPUs
        planned : gangs may have plans (Profiles.plans)
        """
        return {
            "queue": self.queue_window,
            "running": self.running_window,
            "partners": self.partner_window,
            "nodes": room.nodes,
            "links": room.links or len(TIERS),
            "tiers": len(TIERS),
            "types": room.types if room.types > 1 or semantics.max_copies > 1 else 0,
            "sub_batches": max(self.sub_batches, 1),
            "sizes": len(self.sizes),
            "tenants": self.tenant_window,
            "cluster": 1,
            "outlook": int(bool(self.predictor)),
            "topology": int(room.links > 0),
            "sharing": int(shares),
            "plans": int(planned and room.links > 0),
        }


def widest_windows(instance: Instance) -> dict[str, int]:
    """Return the smallest windows that always show every waiting and running job of an instance."""
    jobs = len(instance.workload)
    return {"queue_window": jobs, "running_window": min(instance.cluster.gpus * instance.gpu_jobs, jobs)}
