"""Dally, as in the authors' simulator: delay scheduling, network-sensitive priority, leases and tuned timers."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.baselines.checking import AT_LEAST_0, check
from gpusched_env.baselines.dally.orders import SortedPlaces, fixed_orders, function_of
from gpusched_env.baselines.dally.policy import next_of_delay
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.state import POLICIES, PRIORITIES, Delay, allocate_delay, fill_tasks, slot_sizes
from gpusched_env.baselines.dally.timers import HandTimers, TableTimers, Timers
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClusterView, CompiledScheduler, Simulation

__all__ = ["Dally"]

TUNERS: Final = ("hand", "off", "static", "learned")
QUIRKS: Final = ("Q1", "Q2", "Q3", "Q4", "Q5")
_AUTHORS: Final[dict[str, Any]] = {
    "lease_s": 3600.0,  # [s]
    "ckpt_per_gpu_s": 1.0,  # [s]
    "idle_retry_s": 60.0,  # [s]
    "hist": 24.0,  # [leases]
    "offers": "polled",
    "fit": "first",
    "renew": False,
    "nw_key": "exact",
    "quirks": "Q2/Q3/Q4/Q5",
}
WAITS: Final = {"rack_wait": 6.0, "nw_wait": 12.0}  # [leases]
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "authors": _AUTHORS,
    "authors_published": _AUTHORS | {"quirks": "Q1/Q2/Q3/Q4/Q5"},
    "suite": _AUTHORS
    | {"ckpt_per_gpu_s": 0.0, "offers": "exact", "fit": "best", "renew": True, "nw_key": "rounded", "quirks": "none"},
}


@dataclass
class Dally(CompiledScheduler):
    """Offer free GPUs by priority; a gang refuses a loose placement until it has waited long enough for a tight one.

    Training over a slow network wastes GPU time, so it often pays to wait for GPUs in one machine or rack. Each gang
    has two delay timers. When the rack timer has expired, the gang accepts GPUs of one rack; when the network timer has
    expired, it accepts any GPUs. A tuner sets the timers from recent waits. Every gang returns its GPUs at the end of
    its lease and competes for GPUs again. Jobs that the network has slowed down most are served first.

    Parameters
    ----------
    preset : source of the values of all parameters that are None. "suite" (default) = values for any scenario, with an
        offer at every decision point; "authors" = those of the authors' simulator, whose results are then reproduced to
        the last bit; "authors_published" = those of "authors", with the GPU leak of that simulator (quirk Q1)
    policy : rule by which jobs accept GPUs. "dally" (default); "tiresias" or "gandiva" = as these policies are
        implemented in the authors' simulator
    tuner : source of the timers. "hand" (default) = the authors' auto-tuner; "off" = ``rack_wait`` and ``nw_wait``;
        "static" = the table ``timers``, or ``rack_wait`` and ``nw_wait`` without a table; "learned" = a trained agent
        in the file ``timers`` (empty = the agent of this package). Omit it for the other policies, which have no timers
    rack_wait, nw_wait : constant timers [leases], the waits before a gang accepts a rack, and before it accepts the
        network. inf = for ever; default None = 6 and 12
    timers : file for the tuner "static" or "learned". For "static", the table itself may be given instead. Example:
        with ``8:900:inf/256:0:3600``, gangs of up to 8 GPUs wait 900 s before they accept a rack and never accept the
        network; larger gangs wait 0 s and 3,600 s
    preemption : "lease" (default) = gangs return their GPUs at the end of each lease; "victim" = in addition, running
        gangs may be preempted earlier for a waiting job (such gangs are victims); "none" = no leases
    victim_margin : amount by which the Nw of a victim must at least exceed that of the waiting job, default 0.1
    victim_held_s : minimum time for which a victim must have held its GPUs [s], default 1,200
    victim_limit : maximum number of times that a gang may be a victim, default 8
    lease_s : length of a lease [s]; 3,600 in all presets
    ckpt_per_gpu_s : delay of an offer after n GPUs have been freed, divided by n [s]; only for polled offers; 0 in
        "suite", 1 in other presets
    idle_retry_s : time to the next offer if no other event is left [s], for polled offers only; 60 in all presets
    offers : "exact" (preset "suite") = an offer at every decision point and whenever a timer expires; "polled" (other
        presets) = an offer only at arrivals, ends of jobs and ends of leases
    fit : a place is a slot, a machine or a rack. "best" (preset "suite") = the place with the fewest free GPUs that can
        hold the gang, and in a rack the machines with most free GPUs first; "first" (other presets) = the first place
        with room
    order : order in which slots and machines are visited. "asc" (default) = ascending; "hash" = shuffled once with
        ``order_seed``; "java" = the order of the hash maps of the authors' simulator, which changes with the set of
        places that have free GPUs. A JSON file ``{"machines": [...], "slots": [...]}`` with all numbers gives one order
        for the whole run (without "slots", slots are visited machine by machine). ``module:function`` names a
        function. It gets the places with free GPUs, ascending, as (rack, machine of the rack) or (rack, machine, slot),
        each counted from 0, and returns them in order. The result must depend only on these places
    order_seed : seed of "hash", default 0
    priority : order of the jobs. "nw" (default) = smallest network sensitivity Nw first; "gpu-time" = least attained
        GPU-seconds first; "arrival" = earliest arrival first; "first-start" = latest first start first, and jobs that
        never started last
    nw_key : Nw by which jobs are compared. "rounded" (preset "suite") = to 30 bits, so that jobs whose Nw differ only
        by rounding errors tie; "exact" (other presets) = all bits, as in the authors' code
    k_sigma : the tuner takes the mean of a history of waits + this number of standard deviations, default 2
    min_sample : minimum length of a wait that is recorded [leases], default 1
    empty_value : statistic of an empty history [leases], default 1
    hist : time that a history covers, and upper limit of the network timer [leases]; 24 in all presets
    cap_rack : upper limit of the rack timer as a fraction of ``hist``, default 0.8
    floor_rack, floor_nw : lower limits of the tuned timers [leases], default 6 and 12
    renew : True (preset "suite") = an expired lease is renewed if no job waits and the gang is on the tightest tier
        that can hold it in the empty cluster; False (other presets) = gangs always return their GPUs
    quirks : quirks of the authors' code to reproduce, such as "Q2/Q3"; "none" in "suite". Q1: running jobs bid for
        GPUs, and leak the GPUs that they win. Q2: a look-ahead ends a lease before a step that would not fit, but takes
        step length / gang size as the length of this step. Q3: GPUs of a lease that the look-ahead ends are offered
        without delay. Q4: statistics events delay the idle retry. Q5: pruning a history skips the sample after each
        removed one

    Notes
    -----
    The network sensitivity Nw of a job is its compute seconds so far / its running seconds so far; 0 before the first
    start. The rules follow the code of the authors' simulator. ``docs/dally.md`` has all rules, presets, quirks,
    hazards and choices. A decision point takes O(GPUs + waiting jobs x places).

    References
    ----------
    A. Sharma, V. M. Bhasi, S. Singh, G. Kesidis, M. T. Kandemir, C. R. Das, "Dally: A network-placement sensitive
    cluster scheduler for deep learning" (v2; v1: "GPU Cluster Scheduling for Network-Sensitive Deep Learning"), 2024,
    arXiv 2401.16492. Code: aakash-sharma/cluster-sim, commit 4cd660e.
    """

    needs = ("spread",)
    relies_on_decisions = True
    knows_partitions = False  # it chooses machines itself
    knows_node_counts = False

    preset: str = "suite"
    policy: str = "dally"  # type: ignore[misc]  # that of the base class is :meth:`policy_kernel`
    tuner: str | None = None
    rack_wait: float | None = None
    nw_wait: float | None = None
    timers: str = ""
    preemption: str = "lease"
    victim_margin: float = 0.1
    victim_held_s: float = 1200.0
    victim_limit: int = 8
    lease_s: float | None = None
    ckpt_per_gpu_s: float | None = None
    idle_retry_s: float | None = None
    offers: str | None = None
    fit: str | None = None
    order: str = "asc"
    order_seed: int = 0
    priority: str = "nw"
    nw_key: str | None = None
    k_sigma: float = 2.0
    min_sample: float = 1.0
    empty_value: float = 1.0
    hist: float | None = None
    cap_rack: float = 0.8
    floor_rack: float = 6.0
    floor_nw: float = 12.0
    renew: bool | None = None
    quirks: str | None = None

    def __post_init__(self) -> None:
        """Fill in the preset and check the parameters."""
        check("dally", self, preset=PRESETS)
        for name, value in PRESETS[self.preset].items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        check("dally", self, **_CHOICES)
        self._check_tuner()
        check("dally", self, **dict.fromkeys(_NUMBERS, AT_LEAST_0))
        assert self.lease_s is not None
        if not 0 < self.lease_s < math.inf:
            raise SchedulerError(
                f"dally: lease_s is {self.lease_s}: it must be > 0 and finite, because waits count in leases; "
                "preemption=none lets gangs keep their GPUs"
            )
        if not isinstance(self.renew, bool):
            raise SchedulerError(f"dally: renew is {self.renew!r}: give true or false")
        for quirk in self._quirks:
            if quirk not in QUIRKS:
                raise SchedulerError(f"dally: quirks: {unknown_name('quirk', quirk, QUIRKS)}")
        self.remembers_gpus = self.policy == "gandiva"  # which machine hosts gangs of which size
        if self.preemption == "victim" and self.policy != "dally":
            raise SchedulerError(f"dally: preemption=victim needs delay timers: not with policy={self.policy}")
        if "Q1" in self._quirks and (self.policy == "gandiva" or self.preemption == "victim"):
            raise SchedulerError(
                "dally: quirk Q1 would leak the GPUs that policy=gandiva and preemption=victim keep: leave Q1 out"
            )

    def _check_tuner(self) -> None:
        """Raise an error for parameters that would be ignored; fill in the tuner and the waits."""
        if self.policy != "dally":
            for name in ("tuner", "timers", *WAITS):
                if getattr(self, name) not in (None, ""):
                    raise SchedulerError(f"{self.name}: policy={self.policy} has no delay timers: leave {name} out")
        if self.tuner is None:
            self.tuner = "hand"
        check("dally", self, tuner=TUNERS)
        if self.timers and self.tuner in ("hand", "off"):
            raise SchedulerError(f"dally: timers is a file for tuner=static or learned: tuner={self.tuner} reads none")
        constant = self.tuner == "off" or (self.tuner == "static" and not self.timers)
        for name, leases in WAITS.items():
            if getattr(self, name) is None:
                setattr(self, name, leases)
            elif not constant:
                own = "timers names a table" if self.tuner == "static" else f"tuner={self.tuner} sets the timers"
                raise SchedulerError(
                    f"dally: {name} is for constant timers, but {own}: leave it out, or give tuner=off"
                )

    @property
    def _quirks(self) -> list[str]:
        return [] if self.quirks in (None, "", "none") else str(self.quirks).upper().split("/")

    @property
    def name(self) -> str:
        """Name of the variant in tables, which depends on the timers or the policy."""
        if self.policy != "dally":
            return f"{self.policy}-dally"
        if self.preemption == "none":
            return "dally-no-preempt"
        if self.tuner == "off":
            kinds = {(0.0, 0.0): "no-wait", (math.inf, math.inf): "fully-consolidated"}
            waits = self.rack_wait or 0.0, self.nw_wait or 0.0
            return f"dally-{kinds.get(waits, 'manual')}"
        return "dally" if self.tuner == "hand" else f"dally-{self.tuner}"

    def timers_for(self) -> Timers:
        """Create the object that sets the timers."""
        if self.tuner == "hand":
            return HandTimers()
        if self.tuner == "static" and self.timers:
            return TableTimers.load(self.timers)
        if self.tuner == "learned":
            # Imported late, because the agents import the baselines.
            learned = importlib.import_module("gpusched_env.agents.learned_timers")
            timers: Timers = learned.LearnedTimers.load(self.timers)
            return timers
        assert self.lease_s is not None
        assert self.rack_wait is not None
        assert self.nw_wait is not None
        return TableTimers(np.array([[1.0, self.lease_s * self.rack_wait, self.lease_s * self.nw_wait]]))

    def fill(self, delay: Delay, instance: Instance) -> None:
        """Write the rules and the constant data of the jobs into the arrays of a run."""
        rules, cluster = delay.rules, instance.cluster
        for name in ("lease_s", "ckpt_per_gpu_s", "idle_retry_s", "hist", "cap_rack", "floor_rack", "floor_nw",
                     "k_sigma", "min_sample", "empty_value", "victim_margin", "victim_held_s"):  # fmt: skip
            rules[name] = getattr(self, name)
        rules["priority"], rules["policy"] = PRIORITIES.index(self.priority), POLICIES.index(self.policy)
        rules["exact"], rules["best_fit"] = self.offers == "exact", self.fit == "best"
        rules["renew"], rules["leased"] = self.renew, self.preemption != "none"
        rules["victims"], rules["victim_limit"] = self.preemption == "victim", self.victim_limit
        rules["rounded"] = self.nw_key == "rounded"
        for quirk, name in zip(QUIRKS, ("rebid", "look_ahead", "alias", "statistics", "prune"), strict=True):
            rules[name] = quirk in self._quirks
        rules["step_iterations"] = instance.semantics.step_iterations
        restore_s = instance.semantics.restore_s
        if rules["leased"] and self.lease_s is not None and self.lease_s <= restore_s:
            raise SchedulerError(
                f"dally: lease_s is {self.lease_s:g}, but a resumed gang begins to work only after {restore_s:g} s "
                "(semantics.restore_s): gangs that alternate would never finish; give longer leases"
            )
        if rules["rebid"] and not (rules["step_iterations"] > 0 and rules["leased"] and instance.topology is None):
            raise SchedulerError(
                "dally: quirk Q1 happens between the steps of a job: take a scenario with "
                "semantics.step_iterations > 0 and without contention, and with preemption=lease"
            )
        rules["machine_gpus"], rules["rack_gpus"] = cluster.nodes["gpus"].max(), cluster.racks["gpus"].max()
        rules["next_tune_s"] = np.inf
        rules["free_before"] = cluster.gpus
        fill_tasks(delay, instance)
        sizes = slot_sizes(instance)
        delay.slot_gpu[1 : len(sizes) + 1] = np.cumsum(sizes)
        delay.gpu_slot[: cluster.gpus] = np.repeat(np.arange(len(sizes)), sizes)
        fixed = "asc" if function_of(self.order) is not None else self.order
        by_machine, by_slot = fixed_orders(fixed, self.order_seed, cluster.slots)
        delay.node_order[: len(by_machine)], delay.slot_order[: len(by_slot)] = by_machine, by_slot
        delay.rack_order[:] = np.arange(len(cluster.racks))

    def places_for(self, cluster: Cluster) -> SortedPlaces | None:
        """Return the places that a function sorts during the run; None = the order of places is fixed."""
        function = function_of(self.order)
        return None if function is None else SortedPlaces(cluster, function, self.order)

    # --- play

    @classmethod
    def policy_kernel(cls) -> Any:
        """Return the kernel that makes the decisions."""
        return next_of_delay

    def begin(self, simulation: Simulation, alone: bool) -> Delay:
        """Return the arrays of a new run."""
        delay = allocate_delay(simulation.instance)
        self.fill(delay, simulation.instance)
        return delay

    def player(self, simulation: Simulation) -> DelayRun:
        """Return the driver of the policy."""
        return DelayRun(simulation.instance, self, simulation=simulation)

    def reset(self, view: ClusterView) -> None:
        """Begin a new run."""
        self._run = DelayRun(view.simulation.instance, self, simulation=view.simulation)
        self._choice, self._own = self._run.choice, self._run.own

    def assist(self, simulation: Simulation, own: Delay) -> None:
        """Do what the policy asks for in ``decide``."""
        self._run.assist()


_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "policy": POLICIES,
    "preemption": ("lease", "victim", "none"),
    "offers": ("polled", "exact"),
    "fit": ("first", "best"),
    "priority": PRIORITIES,
    "nw_key": ("rounded", "exact"),
}
_NUMBERS: Final = (
    "rack_wait", "nw_wait", "lease_s", "ckpt_per_gpu_s", "idle_retry_s", "k_sigma", "min_sample", "empty_value", "hist",
    "cap_rack", "floor_rack", "floor_nw", "victim_margin", "victim_held_s", "victim_limit",
)  # fmt: skip
