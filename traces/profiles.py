"""The built-in table of model profiles, and the rules that assign profiles to jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import TraceError, WorkloadError, unknown_name
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.support.files import file_digest
from gpusched_env.traces.parsing.sources import split_here
from gpusched_env.traces.profile_tables import FittedTable, MeasuredTable
from gpusched_env.traces.profile_tables.efficiency import EFFICIENCY_RULES, efficiency_profiles
from gpusched_env.traces.profile_tables.fitted import computed_profiles, fitted_profiles
from gpusched_env.traces.profile_tables.gavel import gavel_table
from gpusched_env.traces.profile_tables.measured import measured_profiles

# Nine convolutional networks. The gradient size (all tensors) and the skew (largest tensor / all tensors) are computed
# from the public tensor lists of Tiresias (Gu et al., NSDI 2019; SymbioticLab/Tiresias, simulator/models.py) in single
# precision. The other columns are choices of this package: the batch per GPU, the compute time of one iteration on a
# V100 in single precision (order of magnitude of public training benchmarks of that time), and the memory it takes.
# Columns: name, batch [samples], gradient [1e6 byte], skew, memory [1e9 byte], compute [s]
V100_TABLE: Final = (
    ("alexnet", 512, 236, 0.61, 6.0, 0.18),
    ("inception3", 64, 57, 0.14, 9.0, 0.26),
    ("inception4", 32, 133, 0.04, 9.0, 0.29),
    ("resnet50", 64, 81, 0.11, 8.0, 0.175),
    ("resnet101", 64, 120, 0.08, 11.0, 0.29),
    ("resnet152", 64, 150, 0.06, 15.0, 0.42),
    ("vgg11", 64, 506, 0.77, 7.0, 0.14),
    ("vgg16", 64, 527, 0.74, 9.0, 0.275),
    ("vgg19", 64, 547, 0.72, 10.0, 0.33),
)
OVERLAP: Final = 1.0  # exponent of the overlap norm; 1 = no overlap, compute and communication add up (choice)


@cache
def mix_profiles() -> Profiles:
    """Return the profiles of the nine convolutional networks in V100_TABLE: always the same read-only table."""
    rows = [
        {
            "name": name,
            "batch": batch,
            "gradient_bytes": gradient * 1e6,
            "memory_bytes": memory * 1e9,
            "skew": skew,
            "overlap": OVERLAP,
            "compute_s": compute,
        }
        for name, batch, gradient, skew, memory, compute in V100_TABLE
    ]
    return Profiles.from_rows(rows, ("V100",)).read_only()


Assigned = tuple[Profiles, np.ndarray]  # profiles, and the row of each job in them
Rule = Callable[[np.random.Generator, Workload, tuple[str, ...]], Workload]


def _of_model(
    models: Callable[[np.random.Generator, Workload, tuple[str, ...]], Assigned],
    rng: np.random.Generator,
    workload: Workload,
    gpu_types: tuple[str, ...],
) -> Workload:
    """Assign the profiles that ``models`` returns, and keep the work of the jobs."""
    profiles, rows = models(rng, workload, gpu_types)
    return workload.unchecked_columns(profile=rows).unchecked_replace(profiles=profiles)


def _unit(rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]) -> tuple[Profiles, np.ndarray]:
    return Profiles.unit(*gpu_types), np.zeros(len(workload), np.int32)


def _models(rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]) -> Assigned:
    """Make one profile for each value of the attribute ``model``; tables of model pairs look models up by this name."""
    if "model" not in workload.attributes:
        raise WorkloadError(
            f"profiles 'models': workload {workload.name!r} names no models (no attribute 'model'); use 'unit'"
        )
    names, rows = np.unique(workload.attributes["model"].astype(str), return_inverse=True)
    unit = Profiles.unit().rows
    table = np.repeat(unit, len(names))
    table["name"] = np.where(names == "", unit["name"][0], names)
    return Profiles(table, np.ones((len(table), len(gpu_types))), gpu_types), rows.astype(np.int32)


def _mix(rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]) -> tuple[Profiles, np.ndarray]:
    missing = [name for name in gpu_types if name != "V100"]
    if missing:
        raise WorkloadError(
            f"profiles 'mix': compute times are known for GPU type V100 only, not for {missing[0]!r}; "
            "use profiles 'unit' (--profiles unit), or a workload file with its own profiles"
        )
    profiles = mix_profiles()
    return profiles, rng.integers(len(profiles.rows), size=len(workload), dtype=np.int32)


def _llm(rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]) -> Assigned:
    """Give each job the fastest plan on its GPUs for the model, the training and the batch that its attributes name."""
    from gpusched_env.traces.profile_tables.llm import Request, llm_profiles

    missing = [name for name in ("model", "training", "batch_size") if name not in workload.attributes]
    if missing:
        raise WorkloadError(
            f"profiles 'llm': workload {workload.name!r} does not say what its jobs train (no attribute "
            f"{missing[0]!r}); the generator llm-dev does, or use 'unit'"
        )
    names, training = (workload.attributes[name].astype(str).tolist() for name in ("model", "training"))
    batches = workload.told("batch_size").astype(np.int64).tolist()
    trained = list(zip(names, training, batches, strict=True))
    gangs: dict[tuple[str, str, int], set[int]] = {}
    for key, gpus in zip(trained, workload.jobs["gpus"].tolist(), strict=True):
        gangs.setdefault(key, set()).add(gpus)
    row_of = {key: row for row, key in enumerate(sorted(gangs))}
    requests = [Request(key[0], key[2], tuple(sorted(gangs[key])), gpu_types, kind=key[1]) for key in row_of]
    return llm_profiles(requests), np.array([row_of[key] for key in trained], np.int32)


PROFILE_RULES: Final[dict[str, Rule]] = {
    "mix": partial(_of_model, _mix),
    "unit": partial(_of_model, _unit),
    "models": partial(_of_model, _models),
    "llm": partial(_of_model, _llm),
    **{table: partial(_of_model, partial(measured_profiles, table)) for table in MeasuredTable.SHIPPED},
    **{table: partial(_of_model, partial(fitted_profiles, table)) for table in FittedTable.SHIPPED},
    "sia-computed": partial(_of_model, partial(computed_profiles, "sia", False)),
    "sia-shared": partial(_of_model, partial(computed_profiles, "sia", True)),
    **{rule: partial(efficiency_profiles, *names) for rule, names in EFFICIENCY_RULES.items()},
}
FILE_RULES: Final = ("gavel",)  # the rule may name a file, gavel:PATH


def assign_profiles(
    workload: Workload, rule: str, rng: np.random.Generator, gpu_types: Sequence[str] = ("V100",)
) -> Workload:
    """Assign a model profile to every job; returns a new workload.

    Parameters
    ----------
    rule : name of the rule, a key of PROFILE_RULES, or "gavel:PATH"; see Notes
    rng : source of random draws, which are made in the order of the jobs in the workload
    gpu_types : GPU types of the cluster

    Notes
    -----
    The rules are:

    - "unit": an iteration takes one second and needs no communication, so run times are the same on every placement.
    - "models": like "unit", but with one profile for each value of the attribute ``model``.
    - "llm": every job gets the fastest plan that fits on its GPUs, for the attributes ``model``, ``training``
      ("pretrain", "sft" or "lora") and ``batch_size`` (sequences of an iteration).
    - "mix": every job draws one of nine convolutional networks uniformly, whatever its gang size.
    - "gavel" and the other tables of MeasuredTable: every job gets a model with measured rates, see
      ``measured_profiles``. "gavel:PATH": the same with another throughput file of Gavel, such as
      ``physical_cluster_throughputs.json``.
    - "pollux" and the other tables of FittedTable: every job gets an application whose speed was fitted to
      measurements, see ``fitted_profiles``.
    - "sia-computed": as "sia", but only compute times are the fitted ones; the network determines communication times.
      "sia-shared": the same, with memory and sub-steps for GPUs that are shared.
    - "dally" and the other names in EFFICIENCY_RULES: every job gets a model whose speed depends on the shape of its
      placement, see ``efficiency_profiles``.

    A job that is given by ``duration_s`` keeps this run time under every rule: its iterations are ``duration_s`` /
    iteration time on the ideal placement. So the job runs for ``duration_s`` on the ideal placement, and longer where
    communication slows its gang down. Only the efficiency rules replace the work of a job, and only if its attributes
    give the number of iterations and the seconds of an iteration.

    Raises
    ------
    WorkloadError : an unknown rule, or a rule that has no speed for a GPU type of the cluster or for the gang of a job
    TraceError : the file of the rule cannot be read
    """
    if ":" in rule:
        path = split_here(rule, "profiles", FILE_RULES)[1]
        table = _gavel_table(path, file_digest(path, TraceError))
        return _of_model(partial(measured_profiles, table), rng, workload, tuple(gpu_types))
    if rule not in PROFILE_RULES:
        raise WorkloadError(unknown_name("profile rule", rule, PROFILE_RULES))
    return PROFILE_RULES[rule](rng, workload, tuple(gpu_types))


@lru_cache(maxsize=4)
def _gavel_table(path: Path, digest: str) -> MeasuredTable:
    return gavel_table(path)
