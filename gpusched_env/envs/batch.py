"""The buffers of a batch of environments, into which the compiled step writes, and the call of that step."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.core.handle import Batched, bound, lay_together
from gpusched_env.core.placement.rules import goes_anywhere, rule_number
from gpusched_env.core.state import Run
from gpusched_env.core.storage import aligned, as_bytes
from gpusched_env.envs.actions import SLOT_ACTIONS
from gpusched_env.envs.env_arrays import CONFIG_DTYPE, SLOT_ACTION_DTYPE, UNSEEN, BatchArrays, EnvArrays
from gpusched_env.envs.mask_and_observation import class_table, link_table
from gpusched_env.envs.observation.machines import TIER_LINKS_COLUMNS
from gpusched_env.envs.observation.outlook import OUTLOOK_S, outlook_table
from gpusched_env.envs.observation.registry import Shown, arrays_shown
from gpusched_env.envs.observation.types import relative_rates
from gpusched_env.envs.rewards import COMPONENTS
from gpusched_env.envs.slots import KEPT
from gpusched_env.envs.step import DRAIN, LATE, NO_ACTION, OVER, REFUSED, RESUME, SKIP, STOPPED, step_all
from gpusched_env.envs.step_results import FIRST_COMPONENT
from gpusched_env.envs.tenant_limits import NO_TENANT, tenant_table
from gpusched_env.envs.windows import WINDOW_ORDERS, Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.prediction import LEVELS, History
from gpusched_env.prediction.history import most_classes
from gpusched_env.problem.cluster import TIERS
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation
from gpusched_env.support.units import BEYOND_CLOCK

NO_LIMIT: Final = 1 << 62  # [step] as step limit
_NO_SLOTS: Final = np.empty(0, np.int32)
# What a copy has; it binds the rest again, which refers to the arrays, or has views of them.
_COPIED: Final = ("_windows", "_axes", "_shapes", "_kinds", "names", "_shared", "actions", "_rows", "_values", "arrays")


class Batch:
    """B environments seen through the same windows; the cluster of one may be smaller than ``axes``.

    Attributes
    ----------
    actions : int64 [B], actions that :meth:`play` carries out: of the action space, or step.NO_ACTION, RESUME, SKIP
    mask : int8 [B, actions], feasible actions
    queue_slots, running_slots, partner_slots : int32 [B, K], [B, V], [B, C], job rows in the slots; -1 = empty
    observations : float32 [B, ...] by name, without empty arrays, since no learner accepts them
    results : float64 [B, 5 + components], results of the last step; columns in gpusched_env.envs.step_results
    episodes : EPISODE_DTYPE [B]
    shown, shown_mask : read-only views of ``observations`` and ``mask``
    row, action : memory views of ``episodes["row"]`` and ``actions``, which are faster to write than arrays
    """

    def __init__(
        self,
        windows: Windows,
        axes: Mapping[str, int],
        runs: Sequence[Run],
        skip_forced_waits: bool,
        weights: Mapping[str, float],
        keep_logs: bool = True,
        refusal_cost: float = 0.0,
    ) -> None:
        self._windows, self._axes = windows, axes
        arrays = arrays_shown(axes, windows.extras)
        self._shapes = {name: shape for name, one in arrays.items() if (shape := one.shape(axes))[0] > 0}
        self._kinds = {name: arrays[name].rows for name in self._shapes}  # of rows
        self.names = list(weights)
        own: dict[str, Any] = {
            "queue_order": WINDOW_ORDERS.index(windows.queue_order),
            "running_order": WINDOW_ORDERS.index(windows.running_order),
            "skip_forced_waits": skip_forced_waits,
            "anywhere": all(goes_anywhere(rule) for rule in windows.rules),
            "lease_s": np.inf if windows.lease_s is None else windows.lease_s,
            "refusal_cost": refusal_cost,
        }
        config = np.zeros((), CONFIG_DTYPE)
        for name in CONFIG_DTYPE.names or ():
            config[name] = own[name] if name in own else getattr(windows, name)
        self._shared = {
            "config": config,
            "rules": np.array([rule_number(rule) for rule in windows.rules], np.int32),
            "delays": np.array(windows.delays_s, np.float64),
            "gang_sizes": np.array(windows.sizes, np.int32),
            "slot_actions": np.array(
                [(SLOT_ACTIONS[name].number, SLOT_ACTIONS[name].slots == "running") for name in windows.more_actions],
                SLOT_ACTION_DTYPE,
            ),
            "components": np.array([COMPONENTS[name].number for name in weights], np.int64),
            "weights": np.array(list(weights.values()), np.float64),
            "array_numbers": np.array([arrays[name].number for name in self._shapes], np.int64),
        }
        self.actions = np.zeros(len(runs), np.int64)
        self._rows = [{axis: axes[axis] for axis in ("nodes", "links")} for _ in runs]  # of each instance
        self._values: dict[str, np.ndarray] = {}  # of the arrays, by name; of a batch of one, they lie in its block
        self.arrays = self._allocated(runs)
        self.arrays.episode["step_limit"] = NO_LIMIT
        self.arrays.episode["keeps_log"] = keep_logs
        self.arrays.scales[:] = 1.0
        self.bind(runs)

    def _allocated(self, runs: Sequence[Run]) -> Batched:
        """Allocate the arrays of all environments, in sizes that suit the runs."""
        windows, run = self._windows, runs[0]
        tenants, types = windows.tenant_window, self._axes["types"]
        sizes = {
            "queue": windows.queue_window,
            "running": windows.running_window,
            "partners": windows.partner_window,
            "actions": windows.actions,
            "keys": max(windows.queue_window, windows.partner_window),
            "first_gangs": KEPT * windows.running_window,
            "components": len(self.names),
            "results": FIRST_COMPONENT + len(self.names),
            "tiers": len(TIERS),
            "tier_columns": len(TIER_LINKS_COLUMNS),
            "classes": run.paces.shape[0],
            "type_classes": run.paces.shape[0] if types else 0,
            "types": types,
            "shown_links": self._axes["links"],
            "places": len(run.free),
            "tree": tenants + 1 if tenants else 0,
            "tenant_jobs": len(run.jobs) if tenants else 0,
            "levels_of_time": LEVELS if windows.predictor else 0,
            "outlooks": most_classes(windows.predictor, len(run.jobs)) if windows.predictor else 0,
            "outlook_columns": OUTLOOK_S,
            "predicted_jobs": len(run.jobs) if windows.predictor else 0,
            "arrays": len(self._shapes),
            "array_rows": sum(map(self._rows_of, self._shapes)),
            "block": sum(math.prod(shape) for shape in self._shapes.values()) if len(runs) == 1 else 0,
            "rows": 0,
        }
        # A batch of one is copied as a whole; of a larger one, learners read arrays that are contiguous over the batch.
        # Addresses mean nothing in another process.
        apart = ("array_addresses",) if len(runs) == 1 else EnvArrays.fields
        return Batched(EnvArrays, len(runs), sizes, apart, **self._shared)

    def handle(self, b: int) -> EnvArrays:
        """Return the arrays of environment ``b``, for kernels."""
        return self._env_handles[b]

    def parts(self) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Yield name, part of the block and shape of each observation array of a single environment."""
        begin = 0
        for name, shape in self._shapes.items():
            end = begin + math.prod(shape)
            yield name, slice(begin, end), shape
            begin = end

    def bind(self, runs: Sequence[Run]) -> None:
        """Use other runs from now on, whose arrays are at least as large as those of the runs before."""
        arrays = self.arrays
        jobs_of = arrays.leaf if self._windows.tenant_window else arrays.outlook_of
        kept = arrays.seen_free.shape[1], arrays.classes.shape[1], jobs_of.shape[1]
        reads_jobs = self._windows.tenant_window or self._windows.predictor
        jobs = len(runs[0].jobs) if reads_jobs else 0
        if (len(runs[0].free), runs[0].paces.shape[0], jobs) != kept:
            self.arrays = self._allocated(runs)
            for name in arrays.own:
                old = getattr(arrays, name)
                getattr(self.arrays, name)[tuple(slice(length) for length in old.shape)] = old
        arrays = self.arrays
        self.observations = {}
        for name, part, shape in self.parts():
            if len(runs) == 1:  # views of one block; a copy of the batch has its own block
                self.observations[name] = arrays.block[:, part].reshape(1, *shape)
            else:
                if name not in self._values:
                    self._values[name] = aligned((len(runs), *shape), np.dtype(np.float32))
                self.observations[name] = self._values[name]
        self._tables = np.zeros((len(runs), len(self._shapes), Shown.WORDS), np.int64)
        self._kept = list(runs), [self._shown(b) for b in range(len(runs))]  # alive: kernels have their addresses
        self.mask, self.results, self.episodes = arrays.mask, arrays.results, arrays.episode
        # What callers get without a copy: who writes into a mask would make infeasible actions pass.
        self.shown = {name: read_only(array) for name, array in self.observations.items()}
        self.shown_mask = read_only(arrays.mask)
        self.queue_slots, self.running_slots, self.partner_slots = arrays.queue, arrays.victims, arrays.partners
        self._env_handles = [arrays.handle(b) for b in range(len(runs))]
        if len(runs) > 1:
            lay_together(list(zip(runs, self._env_handles, strict=True)))
        self._arrays_of_all = BatchArrays(
            runs=np.array([run.address for run in runs]),
            envs=np.array([env.address for env in self._env_handles]),
            actions=self.actions,
        )
        self.play = self.player(0, len(runs))
        self._histories: list[History | None] = [None] * len(runs)  # each begins anew, and learns the same again
        self.action = memoryview(self.actions)  # type: ignore[arg-type]
        self.row = memoryview(self.episodes["row"])  # type: ignore[arg-type]

    def player(self, first: int, end: int) -> Callable[[], int]:
        """Return a function that carries out the actions of environments ``first`` to ``end`` - 1; it returns bits.

        It uses the present arrays, so it must be made again after :meth:`bind`.
        """
        return bound(step_all, self._arrays_of_all, first, end, reaches=self._kept[0][first:end])

    def _rows_of(self, name: str) -> int:
        """Return the number of rows of an array as its kernel sees it."""
        return self._shapes[name][0] if self._kinds[name] else 1

    def _shown(self, b: int) -> list[Shown]:
        """Bind the arrays for their kernels; they have no rows for nodes and links that an instance lacks."""
        slots_of = {"queue": self.arrays.queue, "running": self.arrays.victims, "partners": self.arrays.partners}
        outs, at = [], 0
        for i, (name, kinds) in enumerate(self._kinds.items()):
            rows = self._rows_of(name)
            used = self._rows[b].get(kinds[0], rows) if len(kinds) == 1 else rows
            values = self.observations[name][b].reshape(rows, -1)
            slots = slots_of[kinds[0]][b] if kinds and kinds[0] in slots_of else _NO_SLOTS
            outs.append(Shown(values=values[:used], slots=slots, keys=self.arrays.array_keys[b, at : at + used]))
            outs[-1].lie_in(self._tables[b, i])
            self.arrays.array_addresses[b, i] = outs[-1].address
            at += rows
        return outs

    def _set_rows(self, b: int, rows: dict[str, int]) -> None:
        """Bind the arrays of environment ``b`` again if its instance has other numbers of nodes or links."""
        if rows != self._rows[b]:
            self._rows[b] = rows
            self._kept[1][b] = self._shown(b)

    def copy_into(self, copies: np.ndarray, masks: np.ndarray) -> None:
        """Copy each observation, float32 [block], and mask of environment 0 to row ``row`` of these arrays."""
        self._env_handles[0].replace("copies", copies)
        self._env_handles[0].replace("copies_of_mask", masks)

    def _mark_unwritten(self, b: int) -> None:
        """Make the next observation write everything, so that nothing of another instance is left."""
        for values in self.observations.values():
            values[b] = 0.0
        self.arrays.seen[b] = 0
        self.arrays.seen_free[b] = self.arrays.array_keys[b] = UNSEEN
        self.arrays.ranked["gangs"][b] = -1
        self.arrays.first_gangs[b] = self.arrays.first_keys[b] = 0  # so that equal states have equal bytes

    def begin(self, b: int, instance: Instance, step_limit: int = NO_LIMIT) -> None:
        """Prepare environment ``b`` for another instance, before its first event."""
        arrays = self.arrays
        arrays.classes[b] = 0  # of an instance with more classes
        arrays.shown_links[b] = 0  # of an instance with more links
        for table, rows in ((arrays.classes, class_table(instance)), (arrays.shown_links, link_table(instance))):
            table[b, : len(rows)] = rows
        if self._axes["types"]:
            rates = relative_rates(instance)
            arrays.rates[b] = 0.0  # of an instance with more GPU types
            arrays.rates[b, : rates.shape[0], : rates.shape[1]] = rates
        if self._windows.tenant_window:
            table, (_, leaf) = tenant_table(instance), instance.tenancy
            arrays.tenants[b] = 0
            arrays.tenants["parent"][b] = NO_TENANT
            arrays.tenants[b, : len(table)], arrays.leaf[b, : len(leaf)] = table, leaf
        self._histories[b] = None
        self._set_rows(b, {"nodes": len(instance.cluster.nodes), "links": len(instance.links) or len(TIERS)})
        self._mark_unwritten(b)
        arrays.scales[b] = [COMPONENTS[name].scale(instance) for name in self.names]
        arrays.levels[b] = 0.0
        self.results[b] = 0.0
        kept = self.episodes["keeps_log"][b], self.episodes["row"][b]
        self.episodes[b] = 0
        self.episodes["step_limit"][b] = step_limit
        self.episodes["least_run_s"][b] = self._windows.least_run_in(instance.semantics)
        self.episodes["keeps_log"][b], self.episodes["row"][b] = kept

    def copy(self, source: int, target: int) -> None:
        """Put environment ``target`` of a batch into the state of ``source``."""
        for name in self.arrays.apart:
            if name != "array_addresses":
                rows = as_bytes(self.arrays.rows(name))
                rows[target] = rows[source]
        for values in self.observations.values():
            values[target] = values[source]
        self._set_rows(target, self._rows[source])
        self._histories[target] = None

    def foresee(self, b: int, simulation: Simulation) -> bool:
        """Learn what has ended in environment ``b``; return whether its observation must be written again."""
        history, arrays = self._histories[b], self.arrays
        if history is None:
            history = self._histories[b] = History(simulation.instance, self._windows.predictor)
            arrays.limits_s[b, : len(simulation.instance.workload)] = history.known.limit_s
            self._write_outlook(b, history)
        if not history.follow(simulation.arrays):
            return False
        self._write_outlook(b, history)
        return True

    def _write_outlook(self, b: int, history: History) -> None:
        self.arrays.outlook_of[b, : len(history.class_of)] = history.class_of
        if news := history.news():
            self.arrays.outlook_s[b, news] = outlook_table(history.shares[news])

    def forget(self, b: int) -> None:
        """Learn again what has ended in environment ``b``, which has gone back to an earlier state."""
        self._histories[b] = None

    def write_again(self, these: Sequence[int]) -> None:
        """Write mask and observation of some environments again; all else stays as it is."""
        refused = self.episodes["is_refused"].copy()
        self.actions[:] = SKIP
        self.actions[these] = NO_ACTION
        self.play()
        self.episodes["is_refused"] = refused

    def finish_step(self, bits: int, drain: Callable[[], None]) -> bool:
        """Finish a step of environment 0 as its bits demand; return whether the episode is over.

        ``drain`` empties the log. After an infeasible action the observation is written again.
        """
        while bits & STOPPED:
            drain()
            self.action[0] = RESUME
            bits = self.play()
        if bits & DRAIN:
            drain()
        if bits & LATE:
            raise GpuschedError(BEYOND_CLOCK)
        if bits & REFUSED:
            self.action[0] = NO_ACTION
            self.play()
            self.episodes["is_refused"][0] = 1
        return bits & OVER != 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what refers to the arrays: a copy has arrays of its own."""
        return {name: self.__dict__[name] for name in _COPIED}

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        """Copy the arrays; the names and sizes of what is observed never change."""
        memo |= {id(one): one for one in (self._windows, self._axes, self._shapes, self._kinds, self.names)}
        twin = type(self).__new__(type(self))
        twin.__dict__ |= copy.deepcopy(self.__getstate__(), memo)
        return twin


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view
