"""Windows on the environments of one state: the buffers into which the compiled step writes, and the step itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.cluster import TIERS
from gpusched_env.envs import columns
from gpusched_env.envs.encoder import WINDOW_ORDERS, Windows
from gpusched_env.envs.encoding import (
    CONFIG_DTYPE,
    COPY_QUEUE,
    PLAY_PARAMETERS,
    class_table,
    copy,
    link_table,
    look,
    mark,
    settle_links,
    show_all_links,
)
from gpusched_env.envs.one_action import NO_ACTION, RESUME, play, renew
from gpusched_env.envs.rewards import COMPONENTS, scales
from gpusched_env.envs.sharing_columns import SHARING_TABLES
from gpusched_env.envs.showing import CLASS_DTYPE, SEEN_DTYPE, SHOWN_LINK_DTYPE, UNSEEN
from gpusched_env.envs.slots import KEPT, RANKED_DTYPE
from gpusched_env.envs.stepping import (
    DRAIN,
    EPISODE_DTYPE,
    LEVELS,
    OVER,
    REFUSED,
    STANDS,
    step_all,
)
from gpusched_env.envs.told import FIRST_COMPONENT
from gpusched_env.envs.type_columns import TYPE_TABLES
from gpusched_env.instance import Instance
from gpusched_env.simulator.binding import MOVE, Bound, signature_of
from gpusched_env.simulator.moves import MOVES
from gpusched_env.core.placement.placing import ANYWHERE, RULE_NUMBER
from gpusched_env.core.state import State

NO_LIMIT: Final = 1 << 62  # of steps
_UNCOPIED: Final = ("_bound", "_looks", "play", "action", "row")  # what a copy of a batch must bind anew
_KERNELS: Final = (*MOVES, play, renew, look, settle_links, mark, show_all_links, copy)  # as pieces.py numbers them
_WRITTEN: Final = ("queue", "running", "nodes", "links", "cluster", "flows")  # in the order of play's parameters
_COPIES: Final = {name: COPY_QUEUE + i for i, name in enumerate((*_WRITTEN, "action_mask"))}


class Batch:
    """B environments seen through the same windows.

    Parameters
    ----------
    windows : what agents see and may do
    shapes : of the observation's arrays, see :meth:`Windows.shapes`; clusters may be smaller than they tell
    state : of B environments
    skip_forced_waits, keep_logs : see ClusterVectorEnv
    weights : of reward components

    Attributes
    ----------
    actions : int64 [B], what :meth:`play` is to do: an action, or one_action.NO_ACTION, RESUME, stepping.SKIP
    mask : int8 [B, actions], feasible actions
    queue_slots, running_slots, partner_slots : int32 [B, K], [B, V], [B, C], job rows in the slots; -1 = empty
    observations : float32 [B, ...] by name
    told : float64 [B, 5 + components], what the last step of each told; columns in gpusched_env.envs.told
    episodes : EPISODE_DTYPE [B]
    row : its column ``row``, for quick access
    action : ``actions``, likewise
    copied : names of what :meth:`copy_into` may have copied
    """

    copied: Final = frozenset(_COPIES)

    def __init__(
        self,
        windows: Windows,
        shapes: Mapping[str, tuple[int, ...]],
        state: State,
        skip_forced_waits: bool,
        weights: Mapping[str, float],
        keep_logs: bool = True,
    ) -> None:
        size = len(state.world)
        self.state = state
        self.mask = np.zeros((size, windows.actions), np.int8)
        self.queue_slots = np.full((size, windows.queue_window), -1, np.int32)
        self.running_slots = np.full((size, windows.running_window), -1, np.int32)
        self.partner_slots = np.full((size, windows.partner_window), -1, np.int32)
        self.observations = {name: np.zeros((size, *shape), np.float32) for name, shape in shapes.items()}
        self.episodes = np.zeros(size, EPISODE_DTYPE)
        self.episodes["step_limit"] = NO_LIMIT
        self.episodes["keeps_log"] = keep_logs
        self.actions = np.zeros(size, np.int64)
        self.told = np.zeros((size, FIRST_COMPONENT + len(weights)))
        self.names = list(weights)
        self._scales = np.ones((size, len(weights)))
        self._levels = np.zeros((size, len(weights)))
        config = np.zeros(1, CONFIG_DTYPE)
        config[0] = (
            WINDOW_ORDERS.index(windows.queue_order), WINDOW_ORDERS.index(windows.running_order), windows.clairvoyant,
            windows.migration, skip_forced_waits, windows.sub_batches, windows.pair_benefit,
            all(RULE_NUMBER[rule] in ANYWHERE for rule in windows.rules),
            np.inf if windows.lease_s is None else windows.lease_s,
        )  # fmt: skip
        self._ranked = np.zeros(size, RANKED_DTYPE)
        self._fixed = (
            config,
            np.array([RULE_NUMBER[rule] for rule in windows.rules], np.int32),
            np.array(windows.delays_s, np.float64),
            np.zeros((size, max(windows.queue_window, windows.partner_window))),
            np.zeros((size, KEPT * windows.running_window), np.int32),
            np.zeros((size, KEPT * windows.running_window)),
            np.zeros((size, 0, len(columns.FLOWS)), np.float32),
            np.array([LEVELS.index(COMPONENTS[name][0]) for name in weights], np.int64),
            np.array(list(weights.values()), np.float64),
        )
        self.classes = np.zeros((size, 1, 0), CLASS_DTYPE)
        self.shown_links = np.zeros((size, 1, 0), SHOWN_LINK_DTYPE)
        self.rates = np.zeros((size, 0, state.paces.shape[3]))
        self._seen = np.zeros(size, SEEN_DTYPE)
        self._seen_free = np.full(state.free.shape, UNSEEN, np.int32)
        self._seen_slots = tuple(np.full(s.shape, UNSEEN, np.int64) for s in (self.queue_slots, self.running_slots))
        self._tier_sums = np.zeros((size, len(TIERS), len(columns.TIER_LINKS)))
        self.bind(state)

    def bind(self, state: State) -> None:
        """Look at other arrays, at least as large as those before, from now on."""
        self.state = state
        size = len(state.world)
        for name, length in (("classes", state.paces.shape[1]), ("shown_links", max(state.links.shape[1], 1))):
            table = getattr(self, name)
            longer = np.zeros((size, 1, length), table.dtype)
            longer[:, :, : table.shape[2]] = table
            setattr(self, name, longer)
        if "types" in self.observations:
            rates = np.zeros((size, state.paces.shape[1], self.rates.shape[2]))
            rates[:, : self.rates.shape[1]] = self.rates
            self.rates = rates
        config, rules, delays, keys, first_gangs, first_keys, no_flows, components, weights = self._fixed
        written = [self.observations.get(name, no_flows) for name in _WRITTEN]
        self._bound = Bound(
            step_all,
            _KERNELS,
            [MOVE] * len(_KERNELS),
            PLAY_PARAMETERS,
            (
                *state, config, self.classes, self.shown_links, rules, delays, self.queue_slots, self.running_slots,
                self.partner_slots, keys, self._ranked, first_gangs, first_keys, self.mask, self._seen,
                self._seen_free, *self._seen_slots, self._tier_sums, *written, *(array[:0] for array in written),
                self.mask[:0], self.episodes, self.actions, components, weights,
                self._scales, self._levels, self.told,
            ),
        )  # fmt: skip
        self._looks = self._further_looks()
        self.play = self._step_and_look if self._looks else self._bound.call
        self.action = memoryview(self.actions)  # type: ignore[arg-type]
        self.row = memoryview(self.episodes["row"])  # type: ignore[arg-type]

    def copy_into(self, name: str, array: np.ndarray, address: int) -> None:
        """Have one of ``copied`` of environment b copied to row b + ``row`` of an array, which lies at ``address``."""
        self._bound.replace(_COPIES[name], array, address)

    def _forget(self, b: int) -> None:
        """Let the next look write everything: nothing of another instance is left."""
        for name in _WRITTEN:
            if name in self.observations:
                self.observations[name][b] = 0.0
        self._seen[b] = 0
        for slots in self._seen_slots:
            slots[b] = UNSEEN
        self._seen_free[b] = UNSEEN
        self._ranked["gangs"][b] = -1

    def _further_looks(self) -> list[Bound]:
        """Give what fills the arrays that :func:`play` does not; compiled only where there are some."""
        looks = []
        slots = self.queue_slots, self.running_slots
        if "types" in self.observations:
            from gpusched_env.envs.looking import TYPE_PARAMETERS, show_types_of_all
            from gpusched_env.envs.type_encoding import show_types

            arrays = (*self.state, self.classes, self.rates, *slots, *(self.observations[name] for name in TYPE_TABLES))
            signatures = [signature_of(TYPE_PARAMETERS)]
            arrays = (*arrays, self.episodes, self.actions)
            looks.append(Bound(show_types_of_all, [show_types], signatures, TYPE_PARAMETERS, arrays))
        if "seats" in self.observations:
            from gpusched_env.envs.looking import SHARING_PARAMETERS, show_sharing_of_all
            from gpusched_env.envs.sharing_encoding import show_sharing

            config, rules, *_ = self._fixed
            arrays = (
                *self.state, config, rules, *slots, self.partner_slots, self.mask,
                *(self.observations[name] for name in SHARING_TABLES), self.episodes, self.actions,
            )  # fmt: skip
            signatures = [signature_of(SHARING_PARAMETERS)]
            looks.append(Bound(show_sharing_of_all, [show_sharing], signatures, SHARING_PARAMETERS, arrays))
        return looks

    def _step_and_look(self, first: int, end: int) -> int:
        bits = self._bound.call(first, end)
        for further in self._looks:
            further.call(first, end)
        return bits

    def begin(self, b: int, instance: Instance, step_limit: int = NO_LIMIT) -> None:
        """Show another instance from now on, which stands at its beginning."""
        for table, rows in ((self.classes, class_table(instance)), (self.shown_links, link_table(instance))):
            table[b, :, : rows.shape[1]] = rows
        if "types" in self.observations:
            from gpusched_env.envs.type_encoding import relative_rates

            rates = relative_rates(instance)
            self.rates[b, : rates.shape[0], : rates.shape[1]] = rates
        self._forget(b)
        nodes, shown = instance.cluster.nodes, self.observations["nodes"][b, : len(instance.cluster.nodes)]
        shown[:, 1], shown[:, 3] = nodes["gpus"] / nodes["gpus"].max(), nodes["rack"] / len(instance.cluster.racks)
        of_component = scales(instance) if self.names else {}
        self._scales[b] = [of_component[name] for name in self.names]
        self._levels[b] = 0.0
        self.told[b] = 0.0
        kept = self.episodes["keeps_log"][b], self.episodes["row"][b]
        self.episodes[b] = 0
        self.episodes["step_limit"][b] = step_limit
        self.episodes["keeps_log"][b], self.episodes["row"][b] = kept

    def attend(self, bits: int, drain: Callable[[], None]) -> bool:
        """Do what the driver asks for after a step of environment 0; return whether the episode is over.

        ``drain`` empties its log. The observation is written even where the action was infeasible.
        """
        while bits & STANDS:
            drain()
            self.action[0] = RESUME
            bits = self.play(0, 1)
        if bits & DRAIN:
            drain()
        if bits & REFUSED:
            self.action[0] = NO_ACTION
            self.play(0, 1)
            self.episodes["is_refused"][0] = 1
        return bits & OVER != 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what looks at the arrays: a copy has arrays of its own."""
        return {name: value for name, value in self.__dict__.items() if name not in _UNCOPIED}

    def shown(self) -> dict[str, np.ndarray]:
        """Give the observations that have elements: no learner accepts an array without."""
        return {name: array for name, array in self.observations.items() if array.shape[1]}
