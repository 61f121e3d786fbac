"""Cost of one event under contention, rates included: 500 gangs of four on 256 machines of eight GPUs.

    python benchmarks/contention.py [--events 1000] [--repeats 9] [--output FILE.json]

32 racks of eight machines under a leaf-spine network, max-min fair rates. At each completion another gang starts in the
gap that the completion before has left, so that one gap wanders and the mix of placements stays. The loop is compiled;
CPU seconds, so that other processes do not count; medians over repeats. An event is a completion or a start: the search
for it, its flows, all rates, new completion times and the log. Beside it the same with every rate solved from scratch
at every event, which must give the same rates, bit for bit.
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
import tyro
from rich.console import Console
from rich.table import Table

import gpusched_env
from gpusched_env.cluster import Cluster
from gpusched_env.event_log import RATE
from gpusched_env.instance import Instance
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.simulator import Simulation, contention, events, flows
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.moves import advance_by, start_by
from gpusched_env.workload import Profiles, Workload

RACKS: Final = 32
MACHINES: Final = 8  # of a rack
GPUS: Final = 8  # [GPU] of a machine
GANGS: Final = 500
GANG: Final = 4  # [GPU]
TARGET_S: Final = 20e-6  # [s] of an event


@dataclass
class Settings:
    """Measure the cost of an event under contention."""

    events: int = 1000
    """Completions and starts of one repeat."""
    repeats: int = 9
    """Repeats; the median counts."""
    output: Path | None = None
    """JSON file of the figures."""


def pairs_of_machines(rng: np.random.Generator, across: bool) -> np.ndarray:
    """int32 [GANGS, 4]: two GPUs each on two machines of one rack; if ``across``, every second gang over two racks."""
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


@helper
def forget(world, replicas, running, links, b):  # type: ignore[no-untyped-def]
    """Have all rates solved from scratch."""
    for link in range(links.shape[1]):
        links[b, link]["level"] = np.inf
        flows.touch_link(world, links, b, link)
    for i in range(world[b]["running"]):
        flows.list_flow(world, replicas, b, running[b, i])


@kernel
def play(  # type: ignore[no-untyped-def]
    world, replicas, running, log, chosen, links, uses, ratios, b, moves, places, place_of, row, gap, count, scratch
):
    """Let ``count`` gangs complete and start; return the next row, the gap, and RATE records written."""
    rates = 0
    for _ in range(count):
        world[b]["events"] = 0
        world[b]["event_gpus"] = 0
        if scratch:
            forget(world, replicas, running, links, b)
        advance_by(moves, b)
        for i in range(world[b]["events"]):
            if log[b, i]["kind"] == RATE:
                rates += 1
        done = log[b, world[b]["events"] - 1]["job"]
        for i in range(GANG):
            chosen[b, i] = places[gap, i]
        if scratch:
            forget(world, replicas, running, links, b)
            contention.settle(world, replicas, links, uses, ratios, b)
        if start_by(moves, b, row, int64(events.EXPLICIT), int64(GANG)):
            return -1, gap, rates
        place_of[row] = gap
        gap = place_of[done]
        row += 1
    return row, gap, rates


def measure(settings: Settings, mix: str, oversubscription: float, scratch: bool) -> dict[str, Any]:
    """Measure one mix: seconds of an event, rates told by an event, and a digest of the rates at the end."""
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
    state = simulation.arrays
    simulation.advance()
    for job in range(GANGS - 1):
        simulation.arrays.chosen[:GANG] = places[job]
        assert simulation.start(job, events.EXPLICIT, GANG) == 0
    place_of = np.zeros(count, np.int64)
    place_of[:GANGS] = np.arange(GANGS)
    row, gap = GANGS - 1, GANGS - 1
    seconds, rates = [], []
    for _ in range(settings.repeats + 1):
        begin = time.process_time()
        row, gap, written = play(
            state.world, state.replicas, state.running, state.events, state.chosen, state.links, state.uses,
            state.ratios, simulation.b, simulation.moves, places, place_of, row, gap, pairs, scratch,
        )  # fmt: skip
        seconds.append((time.process_time() - begin) / (2 * pairs))
        rates.append(written / (2 * pairs))
        assert row >= 0
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
                raise SystemExit(f"{mix}, {oversubscription:g}:1: rates from scratch are others")
            figures.append(follow | {"scratch_event_s": scratch["event_s"]})
    table = Table(title=f"one event, {GANGS} gangs on 2,048 GPUs; at most {TARGET_S * 1e6:g} us", title_justify="left")
    for heading in ("gangs of four on", "uplinks", r"event \[us]", r"from scratch \[us]", "rates told"):
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
    main(tyro.cli(Settings))
