"""What all tables of published speeds share: where they are from, and their JSON files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, ClassVar, Final, Self

from gpusched_env.errors import WorkloadError, unknown_name

WORDS: Final = ("name", "source", "licence", "made")  # text fields of every table


@dataclass(frozen=True)
class ProfileTable:
    """A table of one publication: its name and source, the licence, and the command that made it.

    Its JSON files are in this package (SHIPPED); ``python -m studies.profile_tables``, in a clone, writes them.
    """

    name: str
    source: str
    licence: str
    made: str

    SHIPPED: ClassVar[tuple[str, ...]] = ()  # tables of this kind beside this file, as NAME.json

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a table of this package; WorkloadError: there is none of this name."""
        if name not in cls.SHIPPED:
            raise WorkloadError(unknown_name("profile table", name, cls.SHIPPED))
        file = resources.files("gpusched_env.traces.profile_tables") / f"{name}.json"
        return cls.parse(file.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the table of a file's text."""
        data = json.loads(text)
        return cls(**{key: str(data[key]) for key in WORDS}, **cls._fields(data))

    @classmethod
    def _fields(cls, data: Any) -> dict[str, Any]:
        """Return the fields of the table from the data of a file."""
        raise NotImplementedError
