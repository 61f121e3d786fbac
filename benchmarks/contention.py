"""Cost of one event under contention, rates included: 500 gangs of four on 256 machines of eight GPUs.

    python benchmarks/contention.py [--events 1000] [--repeats 9] [--output FILE.json]

32 racks of eight machines under a leaf-spine network, max-min fair rates. At each completion, the next gang starts on
the GPUs that the previous completion has freed. So the GPUs of one gang are always free, and the mix of placements
stays the same. The loop is compiled. Times are CPU seconds, so that other processes do not count; medians over repeats.
An event is a completion or a start. Its time includes finding the event, updating the flows, all rates and the
completion times, and writing the log. A second run of each mix solves all rates from scratch at every event. The time
of this run is reported too, and its final rates must equal those of the first run, bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

import gpusched_env
from gpusched_env.core.events import EXPLICIT, advance, start
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.network.flows import list_flow, touch_link
from gpusched_env.core.network.settling import settle
from gpusched_env.core.refusals import APPLIED, REFUSALS
from gpusched_env.core.state import Run
from gpusched_env.event_log import RATE
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script

RACKS: Final = 32
MACHINES: Final = 8  # per rack
GPUS: Final = 8  # [GPU] per machine
GANGS: Final = 500
GANG: Final = 4  # [GPU]
TARGET_S: Final = 20e-6  # [s] per event


@dataclass
class Settings:
    """Measure the cost of an event under contention."""

    events: int = 1000
    """Completions and starts of one repeat."""
    repeats: int = 9
    """Repeats; the median is reported."""
    output: Path | None = None
    """JSON file for the results."""


def pairs_of_machines(rng: np.random.Generator, across: bool) -> np.ndarray:
    """int32 [GANGS, 4]: two GPUs on each of two machines of a rack; ``across``: every second gang spans two racks."""
    halves = np.arange(RACKS * MACHINES * GPUS, dtype=np.int32).reshape(-1, 2)
    machine, rack = halves[:, 0] // GPUS, halves[:, 0] // GPUS // MACHINES
    order = np.concatenate([rng.permutation(np.flatnonzero(rack == number)) for number in range(RACKS)])
    first, second = order[::2], order[1::2]
    spread = np.arange(len(first)) % 2 == 1 if across else np.zeros(len(first), bool)
    while (bad := (machine[first] == machine[second]) | ((rack[first] != rack[second]) != spread)).any():
        at = rng.choice(np.flatnonzero(bad))
        other = rng.choice(np.flatnonzero(spread if spread[at] else ~spread & (rack[first] == rack[first[at]])))
        second[[at, other]] = second[[other, at]]
    return rng.permutation(np.hstack([halves[first], halves[second]]))[:GANGS]


def random_machines(rng: np.random.Generator) -> np.ndarray:
    """int32 [GANGS, 4]: any four GPUs."""
    gangs = rng.permutation(RACKS * MACHINES * GPUS).astype(np.int32)[: GANGS * GANG].reshape(-1, GANG)
    return np.sort(gangs, axis=1)


MIXES: Final[dict[str, Callable[[np.random.Generator], np.ndarray]]] = {
    "two machines of one rack": lambda rng: pairs_of_machines(rng, False),
    "half of them over two racks": lambda rng: pairs_of_machines(rng, True),
    "four random machines": random_machines,
}


class Wandering(Handle):
    """State of the loop beside the run: places, the place of each gang, and the next gang."""

    places = array(np.int32, "gangs", "gpus")
    place_of = array(np.int64, "jobs")  # row of ``places`` of each job
    row = array(np.int64, "one")  # row of the next gang
    gap = array(np.int64, "one")  # row of ``places`` where the next gang starts
    rates = array(np.int64, "one")  # RATE records written


@kernel
def forget(sim: Run) -> None:
    """Mark everything as changed, so that all rates are solved from scratch."""
    for link in range(len(sim.links)):
        sim.links[link]["level"] = np.inf
        touch_link(sim, link)
    for i in range(sim.world["running"]):
        list_flow(sim, sim.running[i])


@kernel
def play(sim: Run, mix: Wandering, count: int, scratch: bool) -> int:
    """Let ``count`` gangs complete and start; return the code of a refused start, 0 = none was refused."""
    w = sim.world
    for _ in range(count):
        w["events"] = 0
        w["event_gpus"] = 0
        if scratch:
            forget(sim)
        advance(sim)
        for i in range(w["events"]):
            if sim.events[i]["kind"] == RATE:
                mix.rates[0] += 1
        done = sim.events[w["events"] - 1]["job"]
        for i in range(GANG):
            sim.chosen[i] = mix.places[mix.gap[0], i]
        if scratch:
            forget(sim)
            settle(sim)
        refusal = start(sim, mix.row[0], EXPLICIT, GANG, False, 0)
        if refusal != APPLIED:
            return refusal
        mix.place_of[mix.row[0]] = mix.gap[0]
        mix.gap[0] = mix.place_of[done]
        mix.row[0] += 1
    return APPLIED


def measure(settings: Settings, mix: str, oversubscription: float, scratch: bool) -> dict[str, Any]:
    """Measure one mix: seconds per event, logged rates per event, and a digest of the final rates."""
    rng = np.random.default_rng(0)
    places = MIXES[mix](rng)
    pairs = settings.events // 2
    count = GANGS + (settings.repeats + 1) * pairs
    profiles = Profiles.from_rows(
        [
            dict(name=str(i), batch=1, gradient_bytes=size, memory_bytes=0.0, skew=0.0, overlap=2.0, compute_s=seconds)
            for i, (size, seconds) in enumerate([(1e8, 0.05), (5e8, 0.15), (4e8, 0.2), (25e6, 0.02)])
        ]
    )
    workload = Workload.from_columns(
        np.zeros(count), np.full(count, GANG), iterations=rng.exponential(1e5, count) + 1e4, profiles=profiles,
        profile=rng.integers(0, 4, count),
    )  # fmt: skip
    network = Network(
        "topology",
        topology=TopologySpec(oversubscription=oversubscription),
        contention=Contention("maxmin"),
    )
    instance = Instance(Cluster.parse(f"{RACKS * MACHINES}x{GPUS}/{MACHINES}"), workload, network)
    simulation = Simulation(instance)
    simulation.advance()
    for job in range(GANGS - 1):
        simulation.arrays.chosen[:GANG] = places[job]
        assert simulation.start(job, EXPLICIT, GANG) == APPLIED
    place_of = np.zeros(count, np.int64)
    place_of[:GANGS] = np.arange(GANGS)
    one = np.array([GANGS - 1])
    wandering = Wandering(places=places, place_of=place_of, row=one.copy(), gap=one.copy(), rates=np.zeros(1, np.int64))
    seconds, rates = [], []
    for _ in range(settings.repeats + 1):
        wandering.rates[0] = 0
        begin = time.process_time()
        refusal = play(simulation.arrays, wandering, pairs, scratch)
        seconds.append((time.process_time() - begin) / (2 * pairs))
        rates.append(int(wandering.rates[0]) / (2 * pairs))
        assert refusal == APPLIED, REFUSALS[refusal]
    running = simulation.arrays.running[: simulation.arrays.world["running"]]
    bits = simulation.arrays.replicas["rate_Bps"][running].tobytes()
    return {
        "mix": mix,
        "oversubscription": oversubscription,
        "event_s": statistics.median(seconds[1:]),
        "rates_told": statistics.mean(rates[1:]),
        "digest": hashlib.sha256(bits).hexdigest(),
    }


def main(settings: Settings) -> None:
    """Measure, print and save."""
    figures: list[dict[str, Any]] = []
    for mix in MIXES:
        for oversubscription in (1.0, 4.0):
            follow, scratch = (measure(settings, mix, oversubscription, scratch) for scratch in (False, True))
            if follow["digest"] != scratch["digest"]:
                raise SystemExit(f"{mix}, {oversubscription:g}:1: rates from scratch differ")
            figures.append(follow | {"scratch_event_s": scratch["event_s"]})
    table = Table(title=f"one event, {GANGS} gangs on 2,048 GPUs; at most {TARGET_S * 1e6:g} us", title_justify="left")
    for heading in ("gangs of four on", "uplinks", r"event \[us]", r"from scratch \[us]", "rates logged"):
        table.add_column(heading, justify="left" if heading == "gangs of four on" else "right")
    for row in figures:
        seconds = [f"{row[name] * 1e6:.1f}" for name in ("event_s", "scratch_event_s")]
        table.add_row(row["mix"], f"{row['oversubscription']:g}:1", *seconds, f"{row['rates_told']:.1f}")
    Console(width=100).print(table)
    if settings.output is not None:
        versions = {"gpusched_env": gpusched_env.__version__, "python": platform.python_version()}
        data = {"events": figures, "machine": platform.machine()} | versions
        settings.output.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
