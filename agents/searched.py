"""Schedulers whose weights a search has found: files, names, and weights that are in no file."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.checkpoints import checkpoint, weights_of
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import Scheduler


@dataclass
class SearchedRule(Scheduler):
    """Base class of schedulers whose weights a search has found.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that a search of ``studies/index_search`` has written
    """

    kind: ClassVar[str]  # for messages
    format: ClassVar[str]  # of the file
    names: ClassVar[tuple[str, ...]]  # of the weights

    agent: str = ""
    path: str = ""
    rule: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the weights."""
        self.take(self.load(file_of(self.kind, self.agent, self.path)))

    @classmethod
    def playing(cls, rule: Any, **settings: Any) -> Self:
        """Return a scheduler that plays weights that are in no file; ``settings`` are other fields."""
        own = ("agent", "path", "rule", "clairvoyant")
        known = [one.name for one in fields(cls) if one.name not in own and not one.name.startswith("_")]
        for name in settings:
            if name not in known:
                raise SchedulerError(f"{cls.kind}: {unknown_name('setting', name, known)}")
        policy = cls.__new__(cls)
        vars(policy).update(settings)
        policy.take(rule)
        return policy

    def take(self, rule: Any) -> None:
        """Play these weights."""
        self.rule = rule

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    @classmethod
    def load(cls, path: Path) -> Any:
        """Read a file that a search has written."""
        with checkpoint(path, cls.format, f"{'an' if cls.kind[0] in 'aeiou' else 'a'} {cls.kind}") as (_, stored):
            return weights_of(stored, cls.names)
