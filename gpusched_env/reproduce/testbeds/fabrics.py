"""All-reduce times of NCCL on fabrics, from 8 bytes to 16 GiB: row F1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.network import NETWORK_PRESETS
from gpusched_env.network.collectives import Gangs, Links, collective_cost, solo_rate_Bps
from gpusched_env.reproduce.testbeds.reading import Columns, Measured, Points

FILE: Final = "nccl_allreduce"
COLUMNS: Final = ("set", "gpu", "gpus", "size_B", "note", "time_us")
CALIBRATED_ON: Final = {"nvlink": "h200-1", "efa": "p5-2", "ib": "a100-4"}  # fabric -> set
# Set of rows -> preset of its machines; a preset is named by its machine and the fabric between machines. The NICs of
# a100-4 and ib-2 are not stated: assumed. Rows of the set "nvls" name their GPU.
PRESETS: Final = {
    "p4de-2": "p4de-efa",
    "p5-2": "p5-efa",
    "p5en-4": "p5-efa",
    "a100-4": "a100-ib",
    "p5-1": "h100-ib",
    "h200-1": "h100-ib",
    "ib-2": "h100-ib",
    "b200-1": "b200-ib",
    "cw-gb200-72": "gb200-ib",
    "cw-gb200-144": "gb200-ib",
    "cw-gb200-1440": "gb200-ib",
}
ROWS: Final = {
    "F1-own": tuple(CALIBRATED_ON.values()),
    "F1-new": ("p4de-2", "b200-1", "p5en-4", "ib-2", "p5-1", "nvls"),
    "F1-rack": ("cw-gb200-72", "cw-gb200-144", "cw-gb200-1440"),
}
TWICE: Final = {"p5-2-old": "p5-2", "p5-1": "h200-1"}  # the same links, measured with other software
BANDS: Final = {"to 64 KiB": 2.0**16, "to 16 MiB": 2.0**24, "to 256 MiB": 2.0**28, "above 256 MiB": np.inf}
SMALL: Final = BANDS["to 64 KiB"]


def second_rows(table: Columns) -> np.ndarray:
    """Return the rows on which constants are calibrated: the first, third, ... of each set in CALIBRATED_ON."""
    chosen = np.zeros(len(table["set"]), bool)
    for name in CALIBRATED_ON.values():
        chosen[np.flatnonzero(table["set"] == name)[::2]] = True
    return chosen


def seconds(table: Columns, at: int, column: str, constants: Mapping[str, Any]) -> float:
    """Return the time that a column of the table predicts for one row of the file [s]."""
    name = str(table["set"][at])
    machine = PRESETS.get(name, "b200-ib" if "B200" in str(table["gpu"][at]) else "h100-ib")
    preset, gpus, note = NETWORK_PRESETS[machine], table["gpus"][at], str(table["note"][at])
    servers, spec = -(-gpus // preset.gpus[0]), preset.topology
    links = Links(spec.gpu_GBps * 1e9, spec.nic_GBps * 1e9, spec.gpu_latency_s, spec.nic_latency_s)
    collective = "ring"
    if column != "as is":
        links = links._replace(switch_share=spec.switch_share)
        collective = "ring" if "ENABLE=0" in note else "nvls" if "forced" in note else "nccl"
    if column == "calibrated":
        fabrics = constants["nvlink"], constants[machine.rpartition("-")[2]]
        base_s, depth_s = (tuple(fabric[field] for fabric in fabrics) for field in ("base_s", "depth_s"))
        links = links._replace(gpu_latency_s=0.0, server_latency_s=0.0, base_s=base_s, depth_s=depth_s)
    gangs = Gangs(*(np.array([value]) for value in (gpus, servers, gpus / servers, table["size_B"][at])))
    return float(collective_cost(collective, gangs, links).seconds(solo_rate_Bps(gangs, links))[0])


def calibrate(measured: Measured) -> dict[str, Any]:
    """Return base and depth of each fabric [s]: the median time of small messages, then least squares of log times."""
    table = measured.calibration(FILE, COLUMNS, second_rows)
    return {fabric: _fitted(table, table["set"] == name) for fabric, name in CALIBRATED_ON.items()}


def _fitted(table: Columns, of_set: np.ndarray) -> dict[str, float]:
    from scipy.optimize import minimize_scalar

    times_s, small = table["time_us"] * 1e-6, table["size_B"] <= SMALL
    base_s = float(np.median(times_s[of_set & small]))
    large = np.flatnonzero(of_set & ~small).tolist()

    def loss(log_depth: float) -> float:
        trial = dict.fromkeys(CALIBRATED_ON, {"base_s": base_s, "depth_s": np.exp(log_depth)})
        logs = [np.log(seconds(table, at, "calibrated", trial) / times_s[at]) for at in large]
        return float(np.sum(np.square(logs)))

    depth_s = np.exp(minimize_scalar(loss, bounds=(-18.0, -6.0), method="bounded", options={"xatol": 1e-7}).x)
    return {"base_s": float(f"{base_s:.4g}"), "depth_s": float(f"{depth_s:.4g}")}


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Return the predicted and measured times of a row of the table; a group is a set and a band of sizes.

    The floor is the time on the same links with other software.
    """
    if column == "floor":
        return _twice(measured) if row == "F1-own" else []
    wanted = ROWS[row]
    table = measured.test(FILE, COLUMNS, lambda known: np.isin(known["set"], wanted) & ~second_rows(known))
    predicted = np.array([seconds(table, at, column, constants) for at in range(len(table["set"]))])
    return [Points("time [s]", _groups(table), predicted, table["time_us"] * 1e-6)]


def _twice(measured: Measured) -> list[Points]:
    table = measured.test(FILE, COLUMNS, lambda known: np.isin(known["set"], [*TWICE, *TWICE.values()]))
    sizes = table["size_B"].tolist()
    row_of = {key: row for row, key in enumerate(zip(table["set"].tolist(), sizes, strict=True))}
    pairs = [(row, row_of.get((TWICE.get(name, ""), size), -1)) for (name, size), row in row_of.items()]
    other, same = np.array([pair for pair in pairs if pair[1] >= 0]).T
    groups = np.array(_groups(table))[same].tolist()
    return [Points("time [s]", groups, table["time_us"][other] * 1e-6, table["time_us"][same] * 1e-6)]


def _groups(table: Columns) -> list[str]:
    bands = np.array(list(BANDS))[np.searchsorted(list(BANDS.values()), table["size_B"])]
    return [f"{name}, {band}" for name, band in zip(table["set"].tolist(), bands.tolist(), strict=True)]
