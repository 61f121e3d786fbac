"""Options for reading a log.

They are keyword arguments of ``read_trace``, options on the command line, and ``workload.parameters`` in a scenario.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import TraceError, unknown_name
from gpusched_env.support.assignments import split_assignments
from gpusched_env.traces.parsing.map_files import SUFFIX, read_map
from gpusched_env.traces.parsing.roles import split_role

# Option -> formats that it is for, and why no others
ONLY_FOR: Final = {
    "map": (("csv",), "map names the columns of a CSV of your own"),
    "gpu_resource": (("kubernetes", "kueue", "volcano"), "gpu_resource names a resource of Kubernetes"),
    "columns": (("slurm",), "columns names the columns of a table of sacct without a header"),
}


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a log.

    Parameters
    ----------
    map : role -> column of a user's own CSV; allowed for the format ``csv`` only. A text such as
        ``arrival=submit_time,gpus=n`` is also accepted, and the path of a file of TOML with lines
        ``arrival = "submit_time"``
    skip_bad_rows : True = malformed rows are skipped and the report counts them; False = the first one raises an error
    gpu_resource : name of the resource of Kubernetes that is a GPU; "" = nvidia.com/gpu; allowed for the formats
        ``kubernetes``, ``kueue`` and ``volcano`` only
    columns : names of the columns of a table of sacct without a header, as ``sacct --format`` has them; allowed for
        the format ``slurm`` only
    estimate : path of a CSV with predicted run times by job id, see
        :func:`gpusched_env.traces.predictions.join_estimates`; "" = no predictions
    """

    map: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    estimate: str = ""
    gpu_resource: str = ""
    columns: str = ""

    def __post_init__(self) -> None:
        """Check every option; no file is opened."""
        if isinstance(self.map, str):
            object.__setattr__(self, "map", parse_map(self.map))
        if not isinstance(self.map, Mapping) or not all(isinstance(c, str) for pair in self.map.items() for c in pair):
            raise TraceError(f"map is {self.map!r}: give a table of texts, such as arrival = 'submit_time'")
        for role in self.map:
            split_role(role)
        if not isinstance(self.skip_bad_rows, bool):
            raise TraceError(f"skip_bad_rows is {self.skip_bad_rows!r}: give true or false")
        if not isinstance(self.estimate, str):
            raise TraceError(f"estimate is {self.estimate!r}: give the path of a CSV")
        if not isinstance(self.gpu_resource, str):
            raise TraceError(f"gpu_resource is {self.gpu_resource!r}: give the name of a resource, as amd.com/gpu")
        if not isinstance(self.columns, str):
            raise TraceError(f"columns is {self.columns!r}: give names, such as JobID,Submit,Start,End,State,AllocTRES")

    @classmethod
    def of(cls, source: str, name: str, options: Mapping[str, Any]) -> ReadOptions:
        """Make the options for a source of the format ``name``, and check them."""
        for option in options:
            if option not in OPTIONS:
                raise TraceError(f"workload {source}: {unknown_name('parameter', str(option), OPTIONS)}")
        checked = cls(**options)
        for option, (formats, reason) in ONLY_FOR.items():
            if getattr(checked, option) and name not in formats:
                choices = " or ".join(f"{one}:{source.partition(':')[2]}" for one in formats)
                raise TraceError(f"workload {source}: {reason}: write {choices}")
        return checked

    @property
    def for_reader(self) -> dict[str, Any]:
        """The options that the reader of the format takes itself."""
        given = {"mapping": self.map, "gpu_resource": self.gpu_resource, "columns": self.columns}
        return {name: value for name, value in given.items() if value}

    @property
    def estimate_file(self) -> Path | None:
        """Path of the file of predicted run times; None if there is none."""
        return Path(self.estimate).expanduser() if self.estimate else None


OPTIONS: Final = tuple(item.name for item in fields(ReadOptions))


def parse_map(text: str) -> dict[str, str]:
    """Parse ``ROLE=COLUMN,ROLE=COLUMN``, or read ``FILE.toml``; an empty COLUMN means that no column has the role."""
    if text.endswith(SUFFIX) and "=" not in text:
        return read_map(Path(text))
    try:
        return split_assignments(text, "ROLE=COLUMN")
    except ValueError as error:
        remedy = "write arrival=submit_time,gpus=num_gpus,duration=run_time, or FILE.toml"
        raise TraceError(f"map {text!r}: {error}; {remedy}") from None
