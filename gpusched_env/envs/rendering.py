"""Rendering of an environment: text, or a picture of the jobs on GPUs, the queue, the network and the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.cluster import OUTWARDS
from gpusched_env.core.state import CHECKPOINTING
from gpusched_env.simulator.network_view import NetworkView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpusched_env.envs.cluster_env import ClusterEnv

SHOWN: Final = 16  # waiting jobs drawn
BUSIEST: Final = 12  # links in the picture; the text has half as many
# Okabe and Ito, "Color Universal Design" (2008): distinguishable with any colour vision. Later jobs get lighter shades.
_PALETTE: Final = np.array(
    [[230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66], [0, 114, 178], [213, 94, 0], [204, 121, 167]], float
)
_FREE: Final = (245, 245, 245)


def job_colour(row: int) -> tuple[float, float, float]:
    """Return a job's colour: red, green and blue in 0..1; neighbours in the tie order differ."""
    colour = _PALETTE[row % len(_PALETTE)] / 255.0
    lighter = (row // len(_PALETTE)) % 3 * 0.28
    red, green, blue = colour + (1.0 - colour) * lighter
    return float(red), float(green), float(blue)


def duration(seconds: float) -> str:
    """Format seconds as ``2d 03:04:05``."""
    days, rest = divmod(round(seconds), 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}d {clock}" if days else clock


def jobs_on_gpus(env: ClusterEnv) -> tuple[np.ndarray, np.ndarray]:
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


def busiest_links(env: ClusterEnv, count: int) -> list[tuple[str, float, int]]:
    """Return name, load / capacity and number of gangs of the busiest links; ties: most gangs."""
    network = NetworkView(env.simulation)
    share, flows = network.loads_Bps() / network.capacity_Bps, network.flows()
    order = np.lexsort([-flows, -share.round(3)])[:count].tolist()
    return [(str(network.links["name"][i]), float(share[i]), int(flows[i])) for i in order if flows[i]]


def text(env: ClusterEnv) -> str:
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
    queue = [int(row) for row in env.encoder.queue_slots if row >= 0]
    shown = " ".join(f"{letters[row % len(letters)]}x{gpus[row]}" for row in queue[:SHOWN])
    lines.append(f"queue   {shown or '(empty)'}{' ...' if world['waiting'] > min(len(queue), SHOWN) else ''}")
    if simulation.instance.topology is not None:
        links = [f"{name}: {load:.0%} by {gangs}" for name, load, gangs in busiest_links(env, BUSIEST // 2)]
        lines.append(f"links   {', '.join(links) or '(idle)'}")
    return "\n".join(lines)


def picture(env: ClusterEnv) -> np.ndarray:
    """Draw the cluster as an image, uint8 [600, 960, 3].

    Raises
    ------
    gymnasium.error.DependencyNotInstalled : matplotlib is missing
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        from gymnasium.error import DependencyNotInstalled

        raise DependencyNotInstalled(
            'render_mode "rgb_array" needs matplotlib: pip install "gpusched-env[plot]"'
        ) from error

    figure = Figure(figsize=(9.6, 6.0), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    machines, waiting, network = figure.subplot_mosaic(
        [["machines", "waiting"], ["machines", "network"]], width_ratios=[3, 2]
    ).values()
    world = env.simulation.arrays.world
    figure.suptitle(
        f"{env.scenario.name}    time {duration(env.simulation.now_s)}    "
        f"free {world['free_gpus']}/{world['gpus']} GPUs    finished {world['finished']}/{world['jobs']} jobs",
        fontsize=11,
    )
    _draw_machines(env, machines)
    _draw_queue(env, waiting)
    (_draw_tiers if env.simulation.instance.topology is None else _draw_links)(env, network)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()  # type: ignore[no-untyped-call]


def _draw_machines(env: ClusterEnv, axes: Axes) -> None:
    nodes = env.simulation.instance.cluster.nodes
    rows, leaving = jobs_on_gpus(env)
    width, limit = int(nodes["gpus"].max()), len(rows)  # jobs on one GPU are drawn side by side
    image = np.ones((len(nodes), width * limit, 3))
    for number, node in enumerate(nodes):
        for column, layer in np.ndindex(int(node["gpus"]), limit):
            place = layer, int(node["first_gpu"]) + column
            x, row = column - 0.5 + (layer + 0.5) / limit, int(rows[place])
            image[number, column * limit + layer] = np.divide(_FREE, 255) if row < 0 else job_colour(row)
            if leaving[place]:
                axes.text(x, number, "x", ha="center", va="center", fontsize=8)
            elif row >= 0 and len(nodes) <= 16:
                axes.text(x, number, str(row), ha="center", va="center", fontsize=7 if limit == 1 else 6)
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(-0.5, width - 0.5, len(nodes) - 0.5, -0.5))
    axes.set_xticks(np.arange(width + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(nodes) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.0 if limit == 1 else 3.0)
    axes.tick_params(which="minor", length=0)
    for edge in np.flatnonzero(np.diff(nodes["rack"])):
        axes.axhline(edge + 0.5, color="black", linewidth=1.2)
    axes.set_xlabel("GPU of the node")
    axes.set_ylabel("node (a line between racks)")
    axes.locator_params(integer=True)
    shared = "" if limit == 1 else f", up to {limit} on each"
    axes.set_title(f"jobs on GPUs{shared} (x = checkpointing)", fontsize=10)


def _draw_queue(env: ClusterEnv, axes: Axes) -> None:
    jobs = env.simulation.instance.workload.jobs
    queue = [int(row) for row in env.encoder.queue_slots if row >= 0][:SHOWN]
    gangs = [int(jobs["gpus"][row]) for row in queue]
    axes.barh(range(len(queue)), gangs, color=[job_colour(row) for row in queue])
    axes.set_yticks(range(len(queue)), [f"job {row}" for row in queue], fontsize=7)
    axes.set_ylim(SHOWN - 0.5, -0.5)
    axes.set_xlim(0, max([8, *gangs]))
    axes.set_xlabel("gang [GPU]", fontsize=9)
    axes.locator_params(axis="x", integer=True)
    waiting = int(env.simulation.arrays.world["waiting"])
    axes.set_title(f"queue: {waiting} waiting, first {len(queue)} shown", fontsize=10)


def _draw_tiers(env: ClusterEnv, axes: Axes) -> None:
    arrays = env.simulation.arrays
    running = arrays.replicas[arrays.running[: arrays.world["running"]]]
    names = env.simulation.instance.cluster.tiers
    order = [tier for tier in OUTWARDS if tier < len(names)]
    gpus = [int(running["gpus"][running["tier"] == tier].sum()) for tier in order]
    colours = ["#0072B2", "#009E73", "#E69F00", "#D55E00"]
    axes.bar([names[tier] for tier in order], gpus, color=colours[-len(order) :])
    limit = int(arrays.world["gpu_jobs"])
    axes.set_ylim(0, int(arrays.world["gpus"]) * limit)
    axes.set_ylabel("GPUs held" if limit == 1 else "GPUs held (a shared one by each job)", fontsize=9)
    axes.set_title("GPUs held by tier of the gang", fontsize=10)


def _draw_links(env: ClusterEnv, axes: Axes) -> None:
    busiest = busiest_links(env, BUSIEST)
    loads = [load for _, load, _ in busiest]
    axes.barh(range(len(busiest)), loads, color="#0072B2")
    axes.set_yticks(range(len(busiest)), [name for name, _, _ in busiest], fontsize=7)
    most = max([1.0, *loads])
    for row, (_, load, gangs) in enumerate(busiest):
        x, colour = (0.0, "white") if load > 0.1 * most else (load, "black")  # short bar: number beside it
        axes.text(x + 0.01 * most, row, str(gangs), color=colour, va="center", fontsize=7)
    axes.set_ylim(BUSIEST - 0.5, -0.5)
    axes.set_xlim(0, most)
    axes.set_xlabel("load / capacity (with the number of gangs)", fontsize=9)
    axes.set_title("busiest links", fontsize=10)
