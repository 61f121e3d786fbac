"""Energy: what GPUs draw, what it costs, and how many may run under a power cap (docs/energy.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.outages import OUTAGE_DTYPE
from gpusched_env.sharing.csv_pairs import MOST, number_of, pair_rows, text_of
from gpusched_env.support.files import file_digest
from gpusched_env.support.plain_data import set_fields
from gpusched_env.support.units import LATEST_S

__all__ = ["Energy", "integral"]

DEFAULT: Final = "default"
SHIPPED: Final = Path(__file__).with_name("gpu_watts.csv")
STATES: Final = ("idle_w", "communicating_w", "computing_w")  # columns of a table of watts
IDLE, COMMUNICATING, COMPUTING = range(len(STATES))
METERS: Final = ("energy_kwh", "cost", "carbon_kg")
SERIES_DTYPE: Final = np.dtype(
    [
        ("time_s", "<f8"),  # [s] the value holds from here to the next row, and that of the last row for ever
        ("value", "<f8"),  # [unit of the meter / J]; of a cap [W]
        ("area", "<f8"),  # integral of the values from time 0 to here
    ]
)


class Watts(NamedTuple):
    """The draw of a GPU type."""

    watts: tuple[float, ...]  # [W] in each of STATES
    chosen: str  # which of them are choices of ours; "" = none is known to be


@dataclass(frozen=True)
class Energy:
    """What GPUs draw and what that costs; other parts of machines count only if the watts of GPUs include them.

    Parameters
    ----------
    watts : CSV with the columns gpu, idle_w, communicating_w, computing_w [W per GPU]; "default" = the package's
    price : [currency / kWh], a number, or a CSV with the columns time_s, value; "" = no cost is computed
    carbon : [g / kWh], as price
    cap_w : most that all GPUs may draw [W], as price; machines close from the last one on; "" = no cap
    sleep_after_s : time after which a machine without gangs sleeps [s]; inf = never
    sleep_w : draw of a GPU of a machine that sleeps [W]; needed if machines sleep
    wake_j : energy that a machine takes to wake [J]
    """

    watts: str = DEFAULT
    price: str = ""
    carbon: str = ""
    cap_w: str = ""
    sleep_after_s: float = math.inf
    sleep_w: float | None = None
    wake_j: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers; files are not opened."""
        for name in ("sleep_after_s", "sleep_w", "wake_j"):
            value = getattr(self, name)
            if value is not None and not (0 <= value < math.inf or (name == "sleep_after_s" and value == math.inf)):
                raise ScenarioError(f"energy.{name} is {value!r}: give a finite number >= 0")
        if self.sleep_w is None and self.sleep_after_s < math.inf:
            raise ScenarioError("energy.sleep_w: machines sleep, so give the watts of a GPU that sleeps, such as 0")

    @cached_property
    def table(self) -> dict[str, Watts]:
        """The watts by GPU type."""
        found: dict[str, Watts] = {}
        for place, row in pair_rows(SHIPPED if self.watts == DEFAULT else Path(self.watts), ("gpu", *STATES)):
            name = text_of(row, "gpu", place)
            if name in found:
                raise ScenarioError(f"{place}: GPU type {name!r} is given already; keep one")
            found[name] = Watts(tuple(number_of(row, state, place) for state in STATES), row.get("chosen", ""))
        return found

    def of_types(self, cluster: Cluster) -> np.ndarray:
        """float64 [types, STATES] [W]: draw of a GPU of each type of a cluster."""
        for name in cluster.gpu_types:
            if name not in self.table:
                told = unknown_name("GPU type", name, self.table)
                raise ScenarioError(f"energy.watts ({self.watts}): {told}; give a table with its watts")
        return np.array([self.table[name].watts for name in cluster.gpu_types])

    def chosen(self, cluster: Cluster) -> dict[str, int]:
        """Return what is our choice of the watts of a cluster, in words -> number of GPUs."""
        counts = np.bincount(cluster.nodes["gpu_type"], cluster.nodes["gpus"])
        rows = [(name, self.table[name].chosen, count) for name, count in zip(cluster.gpu_types, counts, strict=True)]
        return {
            f"watts of {name} {chosen} (docs/energy.md); GPUs": int(count) for name, chosen, count in rows if chosen
        }

    @cached_property
    def meters(self) -> dict[str, np.ndarray]:
        """The meters that are asked for: SERIES_DTYPE, by name: what each joule adds."""
        units = {"energy_kwh": ("1", 3.6e6), "cost": (self.price, 3.6e6), "carbon_kg": (self.carbon, 3.6e9)}
        fields = dict(zip(METERS, ("energy", "price", "carbon"), strict=True))
        return {
            name: _series(text, f"energy.{fields[name]}", joules, -MOST if name == "cost" else 0.0)
            for name, (text, joules) in units.items()
            if text
        }

    def closed(self, cluster: Cluster) -> np.ndarray:
        """OUTAGE_DTYPE: when a cap closes which machines, by node.

        The machines that are open may draw their most, and the others what they draw idle: those from the last one on
        close until the sum is at most the cap.
        """
        if not self.cap_w:
            return np.empty(0, OUTAGE_DTYPE)
        cap, watts = _series(self.cap_w, "energy.cap_w"), self.of_types(cluster)[cluster.nodes["gpu_type"]]
        idle = cluster.nodes["gpus"] * watts[:, IDLE]
        spare = cap["value"] - math.fsum(idle.tolist())
        if spare.min() < 0:
            raise ScenarioError(
                f"energy.cap_w: {cap['value'].min():g} W at {cap['time_s'][np.argmin(spare)]:g} s, but idle GPUs draw "
                f"{math.fsum(idle.tolist()):g} W; give at least that, or fewer machines"
            )
        needs = np.cumsum(cluster.nodes["gpus"] * watts.max(axis=1) - idle)
        opened = np.searchsorted(needs, spare, side="right")
        spans = list(zip(cap["time_s"].tolist(), [*cap["time_s"][1:].tolist(), math.inf], opened.tolist(), strict=True))
        rows = [
            (node, begin, end, 0)
            for node in range(int(opened.min()), len(needs))
            for begin, end in _joined([(begin, end) for begin, end, count in spans if count <= node])
        ]
        return np.array(rows, OUTAGE_DTYPE)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; fields with their default values are left out."""
        return set_fields(self)

    def identity(self) -> dict[str, Any]:
        """Return the data on which results depend: digests of files instead of their paths."""
        data = self.as_dict()
        data["watts"] = file_digest(SHIPPED if self.watts == DEFAULT else Path(self.watts), ScenarioError)
        for name in ("price", "carbon", "cap_w"):
            if name in data and _number(data[name]) is None:
                data[name] = file_digest(Path(data[name]), ScenarioError)
        return data


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _series(text: str, field: str, parts: float = 1.0, least: float = 0.0) -> np.ndarray:
    """Read a number or a CSV of ``time_s, value``; SERIES_DTYPE, with values divided by ``parts``."""
    number = _number(text)
    rows = [(0.0, number)] if number is not None else []
    wanted = "a finite number" if least else "a finite number >= 0"
    if number is not None and not least <= number <= MOST:
        raise ScenarioError(f"{field} is {text}: give {wanted}, or a CSV file")
    for place, row in pair_rows(Path(text), ("time_s", "value")) if number is None else ():
        time_s = number_of(row, "time_s", place, most=LATEST_S)
        if time_s <= rows[-1][0] if rows else time_s > 0:
            raise ScenarioError(f"{place}, field 'time_s': {time_s:g}: times must ascend from 0 s; sort or add rows")
        rows.append((time_s, number_of(row, "value", place, least, wanted=wanted)))
    if not rows:
        raise ScenarioError(f"{text}: no row in it: give a value at 0 s")
    series = np.zeros(len(rows), SERIES_DTYPE)
    series["time_s"], series["value"] = np.array(rows).T
    series["value"] /= parts
    series["area"][1:] = np.cumsum(series["value"][:-1] * np.diff(series["time_s"]))
    return series


def integral(series: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """Return the integral of a series from time 0 to each time [s], with the shape of ``time_s``."""
    row = series[np.searchsorted(series["time_s"], time_s, side="right") - 1]
    area: np.ndarray = row["area"] + row["value"] * (time_s - row["time_s"])
    return area


def _joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return ascending spans, in which those that follow each other at once are one."""
    joined: list[tuple[float, float]] = []
    for begin, until in spans:
        follows = bool(joined) and joined[-1][1] == begin
        joined.append((joined.pop()[0] if follows else begin, until))
    return joined
