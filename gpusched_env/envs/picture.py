"""The picture of an environment: jobs on GPUs, the queue, the network and the clock."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.envs.canvas import (
    BLACK,
    NORMAL,
    SMALL,
    TINY,
    TITLE,
    WHITE,
    Canvas,
    Colour,
    Panel,
    text_width,
    ticks,
)
from gpusched_env.envs.node_grid import NodeGrid
from gpusched_env.envs.rendering import BUSIEST, SHOWN, busiest_links, duration, job_colours, jobs_on_gpus
from gpusched_env.problem.cluster import OUTWARDS

if TYPE_CHECKING:
    from gpusched_env.envs.rendering import Drawn

WIDTH, HEIGHT = 960, 600
_FREE: Final = (238, 238, 238)
_BLUE: Final = (0, 114, 178)
_TIER_COLOURS: Final = (_BLUE, (0, 158, 115), (230, 159, 0), (213, 94, 0))  # of the tiers in OUTWARDS
_MACHINES: Final = Panel(58, 48, 552, 552)
_LABELS: Final = (70, 150)  # least and most room for the labels of the right panels


def picture(env: Drawn) -> np.ndarray:
    """Draw the cluster as an image, uint8 [600, 960, 3].

    Raises
    ------
    gymnasium.error.DependencyNotInstalled : matplotlib is missing
    """
    try:
        canvas = Canvas(WIDTH, HEIGHT)
    except ImportError as error:
        from gymnasium.error import DependencyNotInstalled

        raise DependencyNotInstalled(
            'render_mode "rgb_array" needs matplotlib: pip install "gpusched-env[plot]"'
        ) from error

    world, topology = env.simulation.arrays.world, env.simulation.instance.topology
    title = (
        f"{env.scenario.name}    time {duration(env.simulation.now_s)}    "
        f"free {world['free_gpus']}/{world['gpus']} GPUs    finished {world['finished']}/{world['jobs']} jobs"
    )
    canvas.text(WIDTH // 2, 12, title, TITLE)
    _draw_machines(env, canvas, _MACHINES)
    room = _LABELS[0]
    if topology is not None:
        longest = max(topology.links["name"].astype(str), key=len)
        room = max(room, min(_LABELS[1], text_width(longest, SMALL)))
    left = _MACHINES.right + 14 + room
    _draw_queue(env, canvas, Panel(left, 48, WIDTH - 14, 264))
    network = Panel(left, 336, WIDTH - 14, 552)
    if topology is None:
        _draw_tiers(env, canvas, network)
    else:
        _draw_links(env, canvas, network, room)
    return canvas.pixels()


def _ink(colour: np.ndarray | Colour) -> Colour:
    """Return white for text on a dark colour, else black."""
    red, green, blue = (int(part) for part in colour)
    return WHITE if 299 * red + 587 * green + 114 * blue < 110_000 else BLACK


def _draw_machines(env: Drawn, canvas: Canvas, panel: Panel) -> None:
    rows, leaving = jobs_on_gpus(env)
    limit = len(rows)  # jobs on one GPU are drawn side by side
    grid = NodeGrid(env.simulation.instance.cluster, limit, panel)
    colours = np.where(rows[:, :, None] < 0, np.array(_FREE, np.uint8), job_colours(rows))
    canvas.paste(grid.pixels(colours.reshape(-1, 3)), panel.left, panel.top)
    digits = len(str(len(env.simulation.instance.workload) - 1))
    size = next((size for size in (SMALL, TINY) if grid.holds(text_width("0" * digits, size), size)), 0)
    shown = leaving | (rows >= 0) if size else leaving
    for layer, gpu in np.argwhere(shown).tolist():
        left, top, right, bottom = grid.cell(layer, gpu)
        x, y, job = (left + right) / 2, (top + bottom) / 2, int(rows[layer, gpu])
        if not leaving[layer, gpu]:
            canvas.text(x, y, str(job), size, colour=_ink(colours[layer, gpu]))
        elif grid.holds(5, 6):
            canvas.text(x, y, "x", NORMAL if grid.holds(10, NORMAL) else TINY, colour=_ink(colours[layer, gpu]))
        else:
            canvas.fill(Panel(int(x), int(y), int(x) + 2, int(y) + 2), BLACK)
    canvas.frame(panel)
    for y, label in grid.row_labels():
        canvas.tick_beside(panel, y, label, SMALL if grid.node_columns > 1 else NORMAL)
    if grid.node_columns > 1:
        below = f"{grid.node_columns} nodes side by side, up to {grid.width} GPUs each (a line between racks)"
        canvas.text(panel.centre[0], panel.bottom + 14, below, NORMAL, "mt")
    else:
        for x, label in grid.column_labels():
            canvas.tick_below(panel, x, label)
        canvas.text(panel.centre[0], panel.bottom + 28, "GPU of the node", NORMAL, "mt")
        canvas.upward_text(12, panel.centre[1], "node (a line between racks)", NORMAL)
    shared = "" if limit == 1 else f", up to {limit} on each"
    mark = "x" if grid.holds(5, 6) else "dot"
    canvas.text(panel.centre[0], panel.top - 12, f"jobs on GPUs{shared} ({mark} = checkpointing)", TITLE)


def _bar_rows(panel: Panel, count: int) -> list[tuple[int, int]]:
    """Return top and bottom of each of ``count`` horizontal bars."""
    edges = np.linspace(panel.top, panel.bottom, count + 1)
    gap = 0.1 * panel.height / count
    return [(round(top + gap), round(bottom - gap)) for top, bottom in pairwise(edges)]


def _draw_queue(env: Drawn, canvas: Canvas, panel: Panel) -> None:
    queue = [int(row) for row in env.shown_queue if row >= 0][:SHOWN]
    gangs = env.simulation.instance.workload.jobs["gpus"][queue].tolist()
    most = max([8, *gangs])
    for row, gang, (top, bottom) in zip(queue, gangs, _bar_rows(panel, SHOWN), strict=False):
        red, green, blue = job_colours(np.array(row)).tolist()
        canvas.fill(Panel(panel.left, top, panel.left + round(gang / most * panel.width), bottom), (red, green, blue))
        canvas.tick_beside(panel, (top + bottom) // 2, f"job {row}", SMALL)
    canvas.frame(panel)
    for value, label in ticks(most, 8, 1.0):
        canvas.tick_below(panel, panel.left + round(value / most * panel.width), label)
    canvas.text(panel.centre[0], panel.bottom + 28, "gang [GPU]", NORMAL, "mt")
    waiting = int(env.simulation.arrays.world["waiting"])
    canvas.text(panel.centre[0], panel.top - 12, f"queue: {waiting} waiting, first {len(queue)} shown", TITLE)


def _draw_tiers(env: Drawn, canvas: Canvas, panel: Panel) -> None:
    arrays = env.simulation.arrays
    running = arrays.replicas[arrays.running[: arrays.world["running"]]]
    names = env.simulation.instance.cluster.tiers
    order = [tier for tier in OUTWARDS if tier < len(names)]
    limit = int(arrays.world["gpu_jobs"])
    most = int(arrays.world["gpus"]) * limit
    width = panel.width / len(order)
    for place, (tier, colour) in enumerate(zip(order, _TIER_COLOURS[-len(order) :], strict=True)):
        gpus = int(running["gpus"][running["tier"] == tier].sum())
        left, right = panel.left + (place + 0.1) * width, panel.left + (place + 0.9) * width
        top = panel.bottom - round(gpus / most * panel.height)
        canvas.fill(Panel(round(left), top, round(right), panel.bottom), colour)
        canvas.tick_below(panel, round((left + right) / 2), names[tier])
    canvas.frame(panel)
    for value, label in ticks(most, 7, 1.0):
        canvas.tick_beside(panel, panel.bottom - round(value / most * panel.height), label)
    held = "GPUs held" if limit == 1 else "GPUs held (shared ones by each job)"
    canvas.upward_text(panel.left - 56, panel.centre[1], held, NORMAL)
    canvas.text(panel.centre[0], panel.top - 12, "GPUs held by tier of the gang", TITLE)


def _shortened(name: str, room: int) -> str:
    """Cut a label to ``room`` pixels."""
    if text_width(name, SMALL) <= room:
        return name
    return next(cut for end in range(len(name), -1, -1) if text_width(cut := f"{name[:end]}...", SMALL) <= room)


def _draw_links(env: Drawn, canvas: Canvas, panel: Panel, room: int) -> None:
    busiest = busiest_links(env, BUSIEST)
    most = max([1.0, *(load for _, load, _ in busiest)])
    for (name, load, gangs), (top, bottom) in zip(busiest, _bar_rows(panel, BUSIEST), strict=False):
        right, y = panel.left + round(load / most * panel.width), (top + bottom) // 2
        canvas.fill(Panel(panel.left, top, right, bottom), _BLUE)
        x, colour = (panel.left, WHITE) if load > 0.1 * most else (right, BLACK)  # short bar: number beside it
        canvas.text(x + 4, y, str(gangs), SMALL, "lm", colour)
        canvas.tick_beside(panel, y, _shortened(name, room), SMALL)
    canvas.frame(panel)
    for value, label in ticks(most, 5):
        canvas.tick_below(panel, panel.left + round(value / most * panel.width), label)
    canvas.text(panel.centre[0], panel.bottom + 28, "load / capacity (with the number of gangs)", NORMAL, "mt")
    canvas.text(panel.centre[0], panel.top - 12, "busiest links", TITLE)
