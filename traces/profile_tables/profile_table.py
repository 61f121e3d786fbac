"""What all tables of published speeds share: where they are from, and their JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.support.files import write_whole

WORDS: Final = ("name", "source", "licence", "made")  # text fields of every table


@dataclass(frozen=True)
class ProfileTable:
    """A table of one publication: its name and source, the licence, and the command that made it.

    Its JSON files are in this package (SHIPPED), or ``python -m studies.profile_tables``, in a clone, writes them.
    """

    name: str
    source: str
    licence: str
    made: str

    SHIPPED: ClassVar[tuple[str, ...]] = ()  # tables of this kind beside this file, as NAME.json
    MORE: ClassVar[tuple[str, ...]] = ()  # fields that the file has beside those above and the parts

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a table of this package; WorkloadError: there is none of this name."""
        if name not in cls.SHIPPED:
            raise WorkloadError(unknown_name("profile table", name, cls.SHIPPED))
        file = resources.files("gpusched_env.traces.profile_tables") / f"{name}.json"
        return cls._parse(file.read_text(encoding="utf-8"), name)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a table that :meth:`write` wrote; WorkloadError: it cannot be read, or is damaged."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WorkloadError(f"{path}: cannot be read ({error})") from error
        return cls._parse(text, str(path))

    def write(self, path: Path) -> None:
        """Write the table atomically, with a line for each row of its parts; equal tables give equal bytes."""
        lines = {key: json.dumps(getattr(self, key)) for key in (*WORDS, *self.MORE)}
        write_whole(path, block(lines | {key: block(part) for key, part in self._parts().items()}) + "\n")

    @classmethod
    def _parse(cls, text: str, where: str) -> Self:
        at = [""]  # place in the file
        try:
            data = json.loads(text)
            fields = cls._fields(data, at)
            at[0] = ""
            return cls(**{key: str(data[key]) for key in WORDS}, **fields)
        except WorkloadError as error:
            raise WorkloadError(f"{where}{at[0]}: {error}") from error
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise WorkloadError(
                f"{where}{at[0]}: not a table that {cls.__name__}.write wrote ({type(error).__name__}: {error}); "
                "make it again"
            ) from error

    def _parts(self) -> Mapping[str, Mapping[str, str]]:
        """Return the parts of the file, with rows that are formatted already."""
        raise NotImplementedError

    @classmethod
    def _fields(cls, data: Any, at: list[str]) -> dict[str, Any]:
        """Return the fields of the table from the data of a file; ``at[0]`` becomes the place of an error."""
        raise NotImplementedError


def block(rows: Mapping[str, str]) -> str:
    """Format an object, with a line for each of its values, which are formatted already."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {row}" for name, row in rows.items()) + "\n}"


def matrix(rows: list[str]) -> str:
    """Format a list, with a line for each of its values, which are formatted already."""
    return "[\n" + ",\n".join(rows) + "\n]"
