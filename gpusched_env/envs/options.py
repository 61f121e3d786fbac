"""The arguments of environments and of ``reset``.

Dataclasses hold name, default and check of each argument; the docstring of the environment tells its meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from gpusched_env.envs.episode_seeds import TRAIN
from gpusched_env.envs.rendering import check_render_mode
from gpusched_env.envs.rewards import MOST_WEIGHT
from gpusched_env.errors import GpuschedError, ScenarioError, unknown_name

_MOST_STEPS: Final = 2**62


@dataclass(frozen=True)
class EpisodeOptions:
    """What an environment pays, when it asks and ends, and what it plays and draws: arguments of ClusterEnv."""

    reward: str | Mapping[str, float] = "jct"
    refusal_cost: float = 0.01
    skip_forced_waits: bool = True
    mask_in_observation: bool = False
    step_limit: int | None = None
    seeds: str | Sequence[int] = TRAIN
    render_mode: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers and the render mode."""
        limit, cost = self.step_limit, self.refusal_cost
        if limit is not None and not (1 <= limit < _MOST_STEPS and limit % 1 == 0):
            raise ScenarioError(f"step_limit is {limit}: it must be at least 1, a whole number below 2**62")
        if not 0 <= cost <= MOST_WEIGHT:
            raise ScenarioError(f"refusal_cost is {cost}: give a finite number >= 0, at most {MOST_WEIGHT:g}")
        check_render_mode(self.render_mode)


def made_of(given: Mapping[str, Any], *kinds: Any) -> list[Any]:
    """Return an object of each dataclass, made of the arguments that are its fields; all must be fields of one."""
    names = [{field.name for field in fields(kind)} for kind in kinds]
    for name in given:
        if not any(name in own for own in names):
            raise ScenarioError(unknown_name("argument", name, ["scenario", *sorted(set().union(*names))]))
    return [
        kind(**{name: value for name, value in given.items() if name in own})
        for kind, own in zip(kinds, names, strict=True)
    ]


def signature_of(cls: Any, *kinds: Any) -> inspect.Signature:
    """Return the signature of an environment's class with the fields of dataclasses in place of ``**options``."""
    first = list(inspect.signature(cls.__init__).parameters.values())[1:-1]
    return inspect.Signature([*first, *(one for kind in kinds for one in inspect.signature(kind).parameters.values())])


def check_reset_options(options: Mapping[str, Any] | None, known: tuple[str, ...] = ()) -> None:
    """Refuse, by a GpuschedError, options of ``reset`` that the environment does not know."""
    unknown = [repr(name) for name in options or () if name not in known]
    if unknown:
        has = f"the only option is {', '.join(map(repr, known))}" if known else "this environment has no options"
        raise GpuschedError(f"reset: unknown option {', '.join(unknown)}: {has}")
