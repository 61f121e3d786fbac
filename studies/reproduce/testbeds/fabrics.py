"""All-reduce times of NCCL on fabrics, from 8 bytes to 16 GiB: rows F1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from gpusched_env.network import NETWORK_PRESETS
from gpusched_env.network.collectives import Gangs, Links, collective_cost, solo_rate_Bps
from gpusched_env.network.presets import STEPS_S, NetworkPreset, RATES_GBps
from studies.reproduce.testbeds.reading import Columns, Measured, Points

FILE: Final = "nccl_allreduce"
COLUMNS: Final = ("set", "gpu", "gpus", "size_B", "note", "time_us")
CALIBRATED_ON: Final = {"nvlink": "h200-1", "efa": "p5-2", "ib": "a100-4"}  # fabric -> set
TWICE: Final = {"p5-2-old": "p5-2", "p5-1": "h200-1"}  # the same links, measured with other software
BANDS: Final = {"to 64 KiB": 2.0**16, "to 16 MiB": 2.0**24, "to 256 MiB": 2.0**28, "above 256 MiB": np.inf}
SWAPPED: Final = "F1-own-swapped"  # the row for which the other half of the rows calibrates
BLACKWELL: Final = 0.74  # share of NVLink's rate while the switch reduces: NVIDIA/nccl, tuning.cc
# Machines of B200 and racks of 72 GB200 are no presets: the ring that is the default is nearer to their measurements.
_H100: Final = NETWORK_PRESETS["h100-ib"].topology
_B200: Final = replace(_H100, gpu_GBps=RATES_GBps["nvlink-b200"], switch_share=BLACKWELL)
MACHINES: Final = NETWORK_PRESETS | {
    "b200-ib": NetworkPreset(_B200, (8,)),
    "gb200-rack-ib": NetworkPreset(replace(_B200, nic_GBps=9 * _B200.nic_GBps, nics=72), (72,)),
}


def calibrating(table: Columns, swapped: bool = False) -> np.ndarray:
    """Return which rows calibrate: the first, third, ... of each set in CALIBRATED_ON; swapped: the others of these."""
    chosen = np.zeros(len(table["set"]), bool)
    for name in CALIBRATED_ON.values():
        chosen[np.flatnonzero(table["set"] == name)[swapped::2]] = True
    return chosen


def seconds(table: Columns, at: int, machines: Mapping[str, str], column: str, constants: Mapping[str, Any]) -> float:
    """Return the time that a column of the table predicts for one row of the file [s].

    ``machines`` : set of rows, or GPU, -> its machine in MACHINES, whose last word is the fabric between them
    """
    machine = machines.get(str(table["set"][at])) or machines[str(table["gpu"][at])]
    preset, gpus, note = MACHINES[machine], table["gpus"][at], str(table["note"][at])
    servers, spec, fabric = -(-gpus // preset.gpus[0]), preset.topology, machine.rpartition("-")[2]
    links, collective = Links(spec.gpu_GBps * 1e9, spec.nic_GBps * 1e9, STEPS_S["nvlink"], STEPS_S["rdma"]), "ring"
    if column != "as is":
        links = links._replace(switch_share=spec.switch_share)
        collective = "ring" if "ENABLE=0" in note else "nvls" if "forced" in note else "nccl"
    if column == "calibrated":
        (gpu_s, *inside), (nic_s, *between) = constants["nvlink"], constants[fabric]
        links = links._replace(gpu_latency_s=gpu_s, server_latency_s=nic_s, depth_s=(*inside, *between))
    gangs = Gangs(*(np.array([value]) for value in (gpus, servers, gpus / servers, table["size_B"][at])))
    return float(collective_cost(collective, gangs, links).seconds(solo_rate_Bps(gangs, links))[0])


def calibrate(measured: Measured) -> dict[str, Any]:
    """Return row -> fabric -> latency and depth [s]: median of small messages, then least squares of log times."""
    machines, found = measured.listed[FILE]["machines"], {}
    for swapped in (False, True):
        for row in (row for row in measured.listed[FILE]["sets"] if (row == SWAPPED) is swapped):
            table = measured.calibration(FILE, COLUMNS, partial(calibrating, swapped=swapped), row)
            found[row] = {name: _fitted(table, table["set"] == of, machines) for name, of in CALIBRATED_ON.items()}
    return found


def _fitted(table: Columns, of_set: np.ndarray, machines: Mapping[str, str]) -> list[float]:
    from scipy.optimize import minimize_scalar

    times_s, small = table["time_us"] * 1e-6, table["size_B"] <= BANDS["to 64 KiB"]
    latency_s = float(np.median(times_s[of_set & small]))
    large = np.flatnonzero(of_set & ~small).tolist()

    def loss(log_depth: float) -> float:
        trial = {fabric: (latency_s, float(np.exp(log_depth))) for fabric in CALIBRATED_ON}
        return float(sum(np.log(seconds(table, at, machines, "calibrated", trial) / times_s[at]) ** 2 for at in large))

    depth_s = np.exp(minimize_scalar(loss, bounds=(-18.0, -6.0), method="bounded", options={"xatol": 1e-7}).x)
    return [float(f"{value:.4g}") for value in (latency_s, depth_s)]


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Return predicted and measured times of a row; a group is a set and a band of sizes.

    The floor is the time on the same links with other software.
    """
    if column == "floor":
        return _twice(measured) if row == "F1-own" else []
    sets, machines = measured.listed[FILE]["sets"][row], measured.listed[FILE]["machines"]
    table = measured.test(
        FILE, COLUMNS, lambda known: np.isin(known["set"], sets) & ~calibrating(known, row == SWAPPED)
    )
    predicted = np.array([seconds(table, at, machines, column, constants[row]) for at in range(len(table["set"]))])
    return [Points("time [s]", _groups(table), predicted, table["time_us"] * 1e-6)]


def _twice(measured: Measured) -> list[Points]:
    table = measured.test(FILE, COLUMNS, lambda known: np.isin(known["set"], [*TWICE, *TWICE.values()]))
    keys = list(zip(table["set"].tolist(), table["size_B"].tolist(), strict=True))
    pairs = [
        (row, keys.index(same)) for row, (name, size) in enumerate(keys) if (same := (TWICE.get(name), size)) in keys
    ]
    other, same_row = np.array(pairs).T
    groups = np.array(_groups(table))[same_row].tolist()
    return [Points("time [s]", groups, table["time_us"][other] * 1e-6, table["time_us"][same_row] * 1e-6)]


def _groups(table: Columns) -> list[str]:
    bands = np.array(list(BANDS))[np.searchsorted(list(BANDS.values()), table["size_B"])]
    return [f"{name}, {band}" for name, band in zip(table["set"].tolist(), bands.tolist(), strict=True)]
