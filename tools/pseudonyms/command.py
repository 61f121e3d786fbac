"""Write a log with pseudonyms: the body of ``gpusched traces pseudonymise``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.progress import reading_shown
from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.traces.parsing.detection import recognise
from gpusched_env.traces.reading import SIGNATURES, resolve_source
from tools.pseudonyms.tables import TABLES, writer_of
from tools.pseudonyms.writing import pseudonymise


def write(source: str, key: Path, output: Path, names: Pseudonyms, columns: Mapping[str, str] | None) -> None:
    """Write the log or file of Slurm ``source`` to ``output``, and print what was left out.

    Raises
    ------
    GpuschedError : the output is the log or the key; TraceError : what cannot be read
    """
    if ":" not in source:
        source = f"slurm:{source}" if source.endswith(".conf") else f"auto:{source}"
    kind, _, rest = source.partition(":")
    if kind == "auto" and Path(rest).expanduser().is_file():
        kind = recognise(Path(rest).expanduser(), {**SIGNATURES, **TABLES})
        source = f"{kind}:{rest}"
    shown = kind in TABLES and bool(rest)
    with reading_shown():
        name, path = (kind, Path(rest).expanduser()) if shown else resolve_source(source)
        for one in (path, key):
            if output.exists() and one.exists() and output.samefile(one):
                raise GpuschedError(
                    f"--output {output}: this is the {'key' if one is key else 'log'}; name another file"
                )
        known = writer_of(kind)(path, output, names) if shown else None
        left_out = pseudonymise(name, path, output, names, columns) if known is None else known
    print(f"{output}: {name}, with pseudonyms; left out: {left_out}; {names.summary()}")
