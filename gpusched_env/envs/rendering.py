"""Rendering of an environment as text, and what text and picture (picture.py) share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from gpusched_env.core.state import CHECKPOINTING
from gpusched_env.simulator.network_view import NetworkView

if TYPE_CHECKING:
    from gpusched_env.envs.cluster_env import ClusterEnv
    from gpusched_env.envs.delay_timers.env import DelayTimersEnv

    Drawn: TypeAlias = ClusterEnv | DelayTimersEnv

SHOWN: Final = 16  # waiting jobs shown
BUSIEST: Final = 12  # links in the picture; the text has half as many
# Okabe and Ito, "Color Universal Design" (2008): distinguishable with any colour vision. Later jobs get lighter shades.
_PALETTE: Final = np.array(
    [[230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66], [0, 114, 178], [213, 94, 0], [204, 121, 167]], float
)
_COLOURS: Final = np.concatenate(
    [_PALETTE + (255.0 - _PALETTE) * 0.28 * shade for shade in range(3)]
).round().astype(np.uint8)  # fmt: skip


def job_colours(rows: np.ndarray) -> np.ndarray:
    """Return the colours of jobs, uint8 [..., 3]; neighbours in the tie order differ."""
    return _COLOURS[rows % len(_COLOURS)]


def duration(seconds: float) -> str:
    """Format seconds as ``2d 03:04:05``."""
    days, rest = divmod(round(seconds), 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}d {clock}" if days else clock


def jobs_on_gpus(env: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """Return the jobs that hold each GPU.

    Returns
    -------
    rows : int [limit, G], job row in each seat of each GPU; -1 = free
    leaving : bool [limit, G], whether that job is being checkpointed
    """
    arrays, instance = env.simulation.arrays, env.simulation.instance
    gpus = instance.cluster.gpus
    holder = arrays.holder[: gpus * instance.gpu_jobs].reshape(-1, gpus)
    rows = np.where(holder >= 0, arrays.replicas["job"][holder], -1)
    leaving = (holder >= 0) & (arrays.replicas["phase"][holder] == CHECKPOINTING)
    return rows, leaving


def busiest_links(env: Drawn, count: int) -> list[tuple[str, float, int]]:
    """Return name, load / capacity and number of gangs of the busiest links; ties: most gangs."""
    network = NetworkView(env.simulation)
    share, flows = network.loads_Bps() / network.capacity_Bps, network.flows()
    order = np.lexsort([-flows, -share.round(3)])[:count].tolist()
    return [(str(network.links["name"][i]), float(share[i]), int(flows[i])) for i in order if flows[i]]


def text(env: Drawn) -> str:
    """Draw each GPU as a character: ``.`` = free, a letter = its job, ``!`` = its job is being checkpointed.

    Where jobs share GPUs, a GPU has as many characters as jobs may share it. With a topology, the busiest links follow.
    """
    simulation = env.simulation
    world, cluster = simulation.arrays.world, simulation.instance.cluster
    rows, leaving = jobs_on_gpus(env)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    counts = f"running {world['running']}  waiting {world['waiting']}  finished {world['finished']}/{world['jobs']}"
    free = f"free {world['free_gpus']}/{world['gpus']} GPUs"
    lines = [f"{env.scenario.name}  time {duration(simulation.now_s)}  {free}  {counts}"]
    for number, node in enumerate(cluster.nodes):
        first = int(node["first_gpu"])
        cells = (" " if len(rows) > 1 else "").join(
            "".join(
                "!" if leaves else "." if row < 0 else letters[row % len(letters)]
                for row, leaves in zip(rows[:, gpu], leaving[:, gpu], strict=True)
            )
            for gpu in range(first, first + int(node["gpus"]))
        )
        lines.append(f"rack {node['rack']:>2} node {number:>3} |{cells}|")
    gpus = simulation.instance.workload.jobs["gpus"]
    queue = [int(row) for row in env.shown_queue if row >= 0]
    shown = " ".join(f"{letters[row % len(letters)]}x{gpus[row]}" for row in queue[:SHOWN])
    lines.append(f"queue   {shown or '(empty)'}{' ...' if world['waiting'] > min(len(queue), SHOWN) else ''}")
    if simulation.instance.topology is not None:
        links = [f"{name}: {load:.0%} by {gangs}" for name, load, gangs in busiest_links(env, BUSIEST // 2)]
        lines.append(f"links   {', '.join(links) or '(idle)'}")
    return "\n".join(lines)
