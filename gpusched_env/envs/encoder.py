"""The bridge between a simulation and fixed-size arrays: windows on queue and running jobs, mask, observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from gpusched_env.cluster import TIERS
from gpusched_env.envs import columns
from gpusched_env.errors import GpuschedError, ScenarioError, unknown_name
from gpusched_env.simulator import ClairvoyantView, ClusterView
from gpusched_env.simulator.decisions import Decision, Preempt, Start, Wait
from gpusched_env.simulator.placing import RULE_NUMBER

Observation = dict[str, np.ndarray]

# Which jobs a window shows, and in which order; the index is the number that the kernels know.
WINDOW_ORDERS: Final = ("arrival", "start", "shortest", "longest", "least-attained", "most-attained")


@dataclass(frozen=True)
class Windows:
    """What an agent sees and may do; the fields are those of :class:`~gpusched_env.envs.cluster_env.ClusterEnv`.

    Raises
    ------
    ScenarioError : an unknown name or impossible value
    """

    queue_window: int = 32
    running_window: int = 8
    rules: Sequence[str] = ("pack",)
    delays_s: Sequence[float] = ()
    queue_order: str = "arrival"
    running_order: str = "most-attained"
    clairvoyant: bool = True
    migration: bool = False
    lease_s: float | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        for name, least in (("queue_window", 1), ("running_window", 0)):
            if getattr(self, name) < least:
                raise ScenarioError(f"{name} is {getattr(self, name)}: it must be at least {least}")
        if not self.rules:
            raise ScenarioError(f"rules is empty: name at least one of {', '.join(RULE_NUMBER)}")
        for rule in self.rules:
            if rule not in RULE_NUMBER:
                raise ScenarioError(f"rules: {unknown_name('placement rule', rule, RULE_NUMBER)}")
        if not all(0 < delay < float("inf") for delay in self.delays_s):
            raise ScenarioError(
                f"delays_s is {tuple(self.delays_s)}: every delay must be a finite number of seconds > 0"
            )
        for name, order in (("queue_order", self.queue_order), ("running_order", self.running_order)):
            known = WINDOW_ORDERS if name == "running_order" else [o for o in WINDOW_ORDERS if o != "start"]
            if order not in known:
                raise ScenarioError(f"{name}: {unknown_name('order', order, known)}")
            if order in ("shortest", "longest") and not self.clairvoyant:
                raise ScenarioError(f"{name}={order!r} needs run times, but clairvoyant is False")
        if self.lease_s is not None and not 0 < self.lease_s < float("inf"):
            raise ScenarioError(
                f"lease_s is {self.lease_s}: give a finite number of seconds > 0, or None for no leases"
            )
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "delays_s", tuple(float(delay) for delay in self.delays_s))

    @property
    def first_preemption(self) -> int:
        """Number of the action that preempts running slot 0."""
        return self.queue_window * len(self.rules)

    @property
    def wait_action(self) -> int:
        """Number of the action that waits for the next event."""
        return self.first_preemption + self.running_window

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.wait_action + 1 + len(self.delays_s)

    def shapes(self, nodes: int, links: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the observation arrays for so many nodes and links; no links = the network is priced by tiers."""
        rows = {
            "queue": self.queue_window,
            "running": self.running_window,
            "nodes": nodes,
            "links": links or len(TIERS),
        }
        if links:
            rows["flows"] = self.running_window
        tables = columns.LINK_TABLES if links else columns.TABLES
        return {name: (rows[name], len(table)) if name in rows else (len(table),) for name, table in tables.items()}

    def space(self, nodes: int, links: int) -> dict[str, spaces.Space[Any]]:
        """Observation spaces; an array without elements is left out, since no learner accepts it."""
        shapes = self.shapes(nodes, links)
        return {key: spaces.Box(0.0, 1.0, shape, np.float32) for key, shape in shapes.items() if shape[0] > 0}


class Encoder:
    """Windows on one simulation.

    Attributes
    ----------
    mask : int8 [actions], feasible actions as of the last :meth:`play`
    queue_slots : int32 [K], job rows in the queue slots; -1 = empty
    running_slots : int32 [V], job rows in the running slots; -1 = empty
    told : float64 [5 + components], what the last step told; columns in gpusched_env.envs.stepping
    """

    def __init__(
        self,
        windows: Windows,
        simulation: Any,
        skip_forced_waits: bool = True,
        weights: Mapping[str, float] | None = None,
        step_limit: int | None = None,
    ) -> None:
        from gpusched_env.envs.batch import NO_LIMIT, Batch
        from gpusched_env.simulator.jit import announce_compilation

        announce_compilation("play")
        self.windows = windows
        self.simulation = simulation
        instance = simulation.instance
        sizes = len(instance.cluster.nodes), len(instance.links)
        self.batch = Batch(windows, simulation.row, *sizes, skip_forced_waits, weights or {})
        self.batch.begin(0, instance, NO_LIMIT if step_limit is None else step_limit)
        self._look()

    def _look(self) -> None:
        """Keep what every step needs."""
        self._shown = tuple((name, array[0]) for name, array in self.batch.shown().items())
        self._episode = self.batch.episodes[0]
        self.told, self.mask = self.batch.told[0], self.batch.mask[0]
        self.queue_slots, self.running_slots = self.batch.queue_slots[0], self.batch.running_slots[0]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what looks at the arrays: a copy has arrays of its own."""
        return {name: self.__dict__[name] for name in ("windows", "simulation", "batch")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Look at the copied simulation."""
        self.__dict__.update(kept)
        self.batch.bind(self.simulation.row)
        self._look()

    @classmethod
    def for_view(cls, windows: Windows, view: ClusterView) -> Encoder:
        """Look through windows at what a scheduler sees; they may be clairvoyant only if the view is.

        Raises
        ------
        GpuschedError : the windows show run times but the scheduler does not declare to be clairvoyant
        """
        if windows.clairvoyant and not isinstance(view, ClairvoyantView):
            raise GpuschedError("clairvoyant windows on a view without run times: declare the scheduler clairvoyant")
        return cls(windows, view._simulation, skip_forced_waits=False)

    def play(self, action: int) -> tuple[Observation, int, bool]:
        """Play an action (or encoding.NO_ACTION, encoding.RESUME) and look.

        Returns
        -------
        observation : fresh arrays
        outcome : an Outcome of the simulation
        refused : the action was infeasible; nothing changed
        """
        self.step(action)
        episode = self._episode
        return self.observation(), int(episode["outcome"]), bool(episode["is_refused"])

    def step(self, action: int) -> bool:
        """Play as :meth:`play` does; return whether the episode is over. ``told`` says what the step did."""
        return self.batch.step_alone(action, self.simulation.drain)

    def observation(self) -> Observation:
        """Give a copy of what the windows showed last."""
        return {name: array.copy() for name, array in self._shown}

    def decision_of(self, action: int) -> Decision | None:
        """Say what an action means now; None = wait for the next event."""
        windows = self.windows
        if action < windows.first_preemption:
            slot, rule = divmod(action, len(windows.rules))
            return Start(int(self.queue_slots[slot]), windows.rules[rule])
        if action < windows.wait_action:
            return Preempt(int(self.running_slots[action - windows.first_preemption]))
        if action == windows.wait_action:
            return None
        return Wait(self.simulation.now_s + windows.delays_s[action - windows.wait_action - 1])

    def action_of(self, decision: Start | Preempt) -> int | None:
        """Number the action of a decision; None if the simulator would refuse it anyway.

        Raises
        ------
        GpuschedError : the job is in no slot, the rule is not enabled, or GPUs are given explicitly
        """
        windows = self.windows
        if isinstance(decision, Preempt):
            slots, remedy, first, step = self.running_slots, "running_window", windows.first_preemption, 1
        elif decision.gpus is not None:
            raise GpuschedError(f"{decision} has no action: explicit GPUs are for direct runs")
        elif decision.rule not in windows.rules:
            raise GpuschedError(f"{decision}: make the environment with rules that include {decision.rule!r}")
        else:
            first, step = windows.rules.index(decision.rule), len(windows.rules)
            slots, remedy = self.queue_slots, "queue_window"
        slot = np.flatnonzero(slots == decision.job)
        if len(slot):
            return int(first + step * slot[0])
        holds = self.simulation.state.jobs["replica"][self.simulation.b, decision.job] >= 0
        if isinstance(decision, Preempt) == bool(holds):
            raise GpuschedError(f"{decision}: job {decision.job} is in no slot; raise {remedy}")
        return None
