"""Lines of Slurm's files: ``Key=Value`` pairs of configuration, and the records of ``scontrol show``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import LONGEST_LINE, text_lines

# Keys in lower case -> values without quotes
Pairs = dict[str, str]

_PAIR: Final = re.compile(r'\s*([\w.]+)\s*([-+*/]?)=\s*("[^"]*"|\S+|(?=\s|$))(?=\s|$)', re.ASCII)
_COMMENT: Final = re.compile(r"(?<!\\)#.*", re.S)
INCLUDE: Final = re.compile(r"\s*include\s+(\S+)", re.I)
_SHOWN: Final = re.compile(r"(?:^|\s)(\w+)=", re.ASCII)


DEEPEST: Final = 10  # files that include each other
MOST_FILES: Final = 1_000  # that one configuration includes
TEXTS: Final = ("reason", "comment", "extra")  # what people write; no further key follows in the line


def logical_lines(
    path: Path, folder: Path | None = None, depth: int = 0, files: list[Path] | None = None
) -> Iterator[tuple[Place, str]]:
    """Yield the lines of a configuration file without comments and blanks; a trailing backslash continues a line.

    Lines of a file that is included stand in place of ``Include``; a relative path counts from ``folder``, that of the
    first file, as in Slurm. ``files`` takes the files that are included.
    """
    folder = path.parent if folder is None else folder
    files = [] if files is None else files
    whole, first = "", 0
    with open_trace(path) as stream:
        for number, raw in enumerate(text_lines(path, stream), 1):
            line = _COMMENT.sub("", raw.rstrip("\r\n")).rstrip()
            first = first or number
            if len(whole) + len(line) >= LONGEST_LINE:
                Place(str(path), first).refuse("line", line, f"{LONGEST_LINE:,} characters or more; correct it")
            if line.endswith("\\"):
                whole += line[:-1]
                continue
            yield from _told(Place(str(path), first), whole + line, folder, depth, files)
            whole, first = "", 0
    yield from _told(Place(str(path), first), whole, folder, depth, files)


def _told(place: Place, line: str, folder: Path, depth: int, files: list[Path]) -> Iterator[tuple[Place, str]]:
    include = INCLUDE.match(line)
    if include is not None:
        file = folder / include[1].strip('"')
        if depth >= DEEPEST:
            remedy = f"more than {DEEPEST} files inside each other; remove the Include of a file in itself"
            place.refuse("Include", include[1], remedy)
        if len(files) >= MOST_FILES:
            remedy = f"more than {MOST_FILES:,} files are included; remove the Include of a file that is read already"
            place.refuse("Include", include[1], remedy)
        if not file.is_file():
            remedy = "no such file; copy it there, or put its lines here"
            place.refuse("Include", include[1], f"{file}: {remedy}" if str(file) != include[1] else remedy)
        files.append(file)
        yield from logical_lines(file, folder, depth + 1, files)
    elif line.strip():
        yield place, line


def pairs_of(place: Place, line: str) -> Pairs:
    """Return the pairs of one logical line; ``Key+=Value`` counts as ``Key=Value``."""
    pairs: Pairs = {}
    at = 0
    line = line.rstrip()
    while at < len(line):
        found = _PAIR.match(line, at)
        if found is None:
            place.refuse("line", line[at:].strip(), "expected KEY=VALUE; correct or remove it")
        key = found[1].lower()
        if key in pairs:
            place.refuse(found[1], found[3], "this key occurs twice in the line; correct it")
        pairs[key] = found[3].strip('"')
        at = found.end()
    return pairs


def shown_records(path: Path) -> Iterator[tuple[Place, Pairs]]:
    """Yield the records that ``scontrol show node`` or ``show partition`` writes, with or without ``-o``.

    A record begins with a line whose first word is ``NodeName=`` or ``PartitionName=``. A value ends where the next
    ``Key=`` begins, because values such as the name of the operating system hold blanks. Lines before the first record
    are skipped.
    """
    place, pairs = Place(str(path), 1), Pairs()
    with open_trace(path) as stream:
        for number, line in enumerate(text_lines(path, stream), 1):
            keys = list(_SHOWN.finditer(line))
            if keys and keys[0][1].lower() in ("nodename", "partitionname"):
                if pairs:
                    yield place, pairs
                place, pairs = Place(str(path), number), {}
            elif not pairs or not keys:
                continue
            texts = [i for i, key in enumerate(keys) if key[1].lower() in TEXTS]
            keys = keys[: texts[0] + 1] if texts else keys
            ends = [key.start() for key in keys[1:]] + [len(line)]
            for key, end in zip(keys, ends, strict=True):
                pairs.setdefault(key[1].lower(), line[key.end() : end].strip())
    if pairs:
        yield place, pairs
