"""Gavel (Narayanan et al., OSDI 2020): steps per second of 26 models on three GPU types, alone and in pairs."""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import TraceError, unknown_name
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.profile_tables.measured import MeasuredModel, MeasuredTable

GPU_TYPES: Final = {"V100": "v100", "P100": "p100", "K80": "k80"}  # name here -> name in the file
APART: Final = "_unconsolidated"
# Order of the job types in Gavel's generator: by family in this order, then by ascending batch size.
FAMILIES: Final = ("ResNet-18", "ResNet-50", "Transformer", "LM", "Recommendation", "A3C", "CycleGAN")
# Significant digits of packed rates. The rates of jobs alone are not rounded, so that generated steps equal Gavel's.
DIGITS: Final = 3
DAMAGED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)

Key = tuple[str, int]  # job type, scale factor
Rates = dict[Key, dict[Key | None, Any]]  # job -> other job on the GPU (None = no other) -> rate


def gavel_table(source: Path) -> MeasuredTable:
    """Read ``simulation_throughputs.json`` or ``physical_cluster_throughputs.json``, compressed with gzip or not.

    A gang in one machine has the rate of the GPU type, such as ``v100``. A gang that is spread over machines has the
    rate of ``v100_unconsolidated``. Packed rates, those of two jobs on the same GPUs, are read for pairs of one-GPU
    jobs only, because the packed rates of larger gangs are all 0 in the files. Packed rates are the same in both files.
    But this table stores packed rate / rate of the job alone, and the rates of jobs alone differ between the files.
    The file may lack GPU types.
    """
    with open_trace(source) as stream:
        try:
            data = json.load(stream)
            raw = {name: {_key(key): _others(row) for key, row in rows.items()} for name, rows in data.items()}
            rates = {kind: (raw[name], raw.get(name + APART, {})) for kind, name in GPU_TYPES.items() if name in raw}
            keys = {key for together, _ in rates.values() for key in together}
            names = sorted({name for name, _ in keys}, key=_order)
            models = {name: _model(name, keys, rates) for name in names}
            packed = {gpu_type: _packed(names, together) for gpu_type, (together, _) in rates.items()}
            file = source.name.partition(".json")[0] + ".json"  # without a suffix such as .gz
            return MeasuredTable(
                "gavel",
                f"stanford-futuredata/gavel, scheduler/{file}; Narayanan et al., OSDI 2020",
                "MIT",
                f"python -m studies.profile_tables gavel {file}",
                tuple(rates),
                models,
                packed,
            )
        except DAMAGED as error:
            raise TraceError(
                f"{source}: not a throughput file of Gavel ({type(error).__name__}: {error}); expected GPU type -> "
                '"(\'job type\', scale factor)" -> "null" or another key; fetch it again'
            ) from error


def _key(text: str) -> Key:
    """Parse a key of the file, the text of a Python tuple."""
    name, gpus = ast.literal_eval(text)
    return str(name), operator.index(gpus)


def _others(row: dict[str, Any]) -> dict[Key | None, Any]:
    for rate in row.values():
        if any(type(one) not in (int, float) for one in (rate if isinstance(rate, list) else [rate])):
            raise TypeError(f"rate {rate!r}")
    return {None if key == "null" else _key(key): value for key, value in row.items()}


def _order(name: str) -> tuple[int, int]:
    if (family := name.partition(" (")[0]) not in FAMILIES:
        raise ValueError(unknown_name("model", name, FAMILIES))
    return FAMILIES.index(family), _batch(name)


def _batch(name: str) -> int:
    """Return the number of samples of a step on one GPU; 0 if the name of the job type has no batch size."""
    match = re.search(r"\(batch size (\d+)\)$", name)
    return int(match[1]) if match else 0


def _model(name: str, keys: set[Key], rates: dict[str, tuple[Rates, Rates]]) -> MeasuredModel:
    gangs = sorted(gpus for model, gpus in keys if model == name)
    measured = {}
    for gpu_type, (together, apart) in rates.items():
        measured[gpu_type] = {gpus: _alone(together, apart, (name, gpus)) for gpus in gangs if (name, gpus) in together}
    return MeasuredModel(name, measured, _batch(name))


def _alone(together: Rates, apart: Rates, key: Key) -> tuple[float, ...]:
    """Return the rate in one machine and, for a gang, the rate spread over machines if it was measured and differs."""
    one = float(together[key][None])
    spread = float(apart[key][None]) if key in apart and key[1] > 1 else one
    return (one,) if spread == one else (one, spread)


def _packed(names: list[str], alone: Rates) -> dict[tuple[str, str], float]:
    """Return (own, other) -> rate of a one-GPU job of model ``own`` on a GPU with ``other`` / its rate alone."""
    rates = {}
    for own in names:
        row = alone.get((own, 1), {})
        for other in names:
            if (other, 1) in row and row[None] > 0:
                rates[own, other] = _rounded(float(row[other, 1][0]) / row[None])
    return rates


def _rounded(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"packed rate {value}")
    return float(f"{value:.{DIGITS}g}")
