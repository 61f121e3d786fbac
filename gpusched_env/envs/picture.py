"""The picture of an environment: jobs on GPUs, the queue, and the network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from gymnasium.error import DependencyNotInstalled

from gpusched_env.envs.rendering import BUSIEST, SHOWN, busiest_links, first_waiting, jobs_on_gpus, title
from gpusched_env.problem.cluster import OUTWARDS, Cluster
from gpusched_env.support.figures import job_colours

if TYPE_CHECKING:
    from gpusched_env.envs.rendering import Drawn

    Box = tuple[int, int, int, int]  # left, top, right and bottom [pixel]
    Bar = tuple[str, float, tuple[int, ...]]  # text, length and colour

WIDTH, HEIGHT = 960, 600
MACHINES: Final = (14, 66, 564, 588)  # the panel of GPUs
_QUEUE, _NETWORK = (584, 66, 946, 316), (584, 366, 946, 588)
_BLACK, _WHITE, _FREE, _BLUE = (0, 0, 0), (255, 255, 255), (238, 238, 238), (86, 180, 233)


@functools.cache
def _font(size: int) -> Any:
    import matplotlib
    from PIL import ImageFont

    path = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def picture(env: Drawn) -> np.ndarray:
    """Draw the cluster as an image, uint8 [600, 960, 3]."""
    try:
        import matplotlib  # noqa: F401
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise DependencyNotInstalled(
            'render_mode "rgb_array" needs matplotlib: pip install "gpusched-env[plot]"'
        ) from error

    instance = env.simulation.instance
    rows, leaving = jobs_on_gpus(env)
    grid = grid_of(instance.cluster, len(rows))
    image = Image.fromarray(_gpus(instance.cluster, grid, rows, leaving))
    draw = ImageDraw.Draw(image)
    draw.text((WIDTH // 2, 18), title(env), _BLACK, _font(14), "mm")
    shared = "" if len(rows) == 1 else f", up to {len(rows)} on each"
    draw.text((MACHINES[0], 50), f"jobs on GPUs{shared} (half covered: checkpointing)", _BLACK, _font(12), "lm")
    if grid.width >= 8 * len(str(rows.max())) and grid.height >= 12:
        for seat, gpu in np.argwhere((rows >= 0) & ~leaving).tolist():
            middle = grid.left[seat, gpu] + grid.width // 2, grid.top[gpu] + grid.height // 2
            draw.text(middle, str(rows[seat, gpu]), _BLACK, _font(10), "mm")
    queue = first_waiting(env)
    jobs = [(f"job {row}: {gpus} GPUs", gpus, tuple(job_colours(np.array(row)).tolist())) for row, gpus in queue]
    _draw_bars(draw, _QUEUE, f"the first {len(jobs)} waiting jobs", jobs, SHOWN)
    if instance.topology is None:
        _draw_bars(draw, _NETWORK, "GPUs held by tier of the gang", _tiers(env), len(OUTWARDS))
    else:
        links = [(f"{name}: {load:.0%} by {gangs}", load, _BLUE) for name, load, gangs in busiest_links(env, BUSIEST)]
        _draw_bars(draw, _NETWORK, "busiest links: load by number of gangs", links, BUSIEST)
    return np.array(image)


class Grid(NamedTuple):
    """Where GPUs are drawn: machines one below the other, in as many columns as make the cells largest."""

    left: np.ndarray  # int [limit, G] [pixel]; the cell of a GPU is divided among the jobs that may share it
    top: np.ndarray  # int [G] [pixel]
    width: int  # [pixel] of a job's part of a cell
    height: int
    first_of_rack: np.ndarray  # int [racks - 1]: first GPU of each rack but the first, above which is a line


def grid_of(cluster: Cluster, limit: int) -> Grid:
    """Return the grid of a cluster on whose GPUs up to ``limit`` jobs may run."""
    nodes, (left, top, right, bottom) = cluster.nodes, MACHINES
    seats = int(nodes["gpus"].max()) * limit + 1  # with a gap beside each machine
    columns = np.arange(1, len(nodes) + 1)
    sides = np.minimum((right - left) / (columns * seats), (bottom - top) / -(-len(nodes) // columns))
    count = int(columns[sides.argmax()])
    lines = -(-len(nodes) // count)
    width, height = (right - left) / (count * seats), (bottom - top) / lines
    order = np.argsort(nodes["rack"], kind="stable")  # machines of a rack may not be neighbours
    place = np.empty(len(nodes), int)
    place[order] = np.arange(len(nodes))
    column, line = np.divmod(place[cluster.node_of_gpu], lines)
    seat = column * seats + (np.arange(cluster.gpus) - nodes["first_gpu"][cluster.node_of_gpu]) * limit
    begins = order[np.flatnonzero(np.diff(nodes["rack"][order])) + 1]
    return Grid(
        left + ((seat + np.arange(limit)[:, None]) * width).astype(int),
        top + (line * height).astype(int),
        max(int(width) - (width >= 3), 1),
        max(int(height) - (height >= 3), 1),
        nodes["first_gpu"][begins],
    )


def _gpus(cluster: Cluster, grid: Grid, rows: np.ndarray, leaving: np.ndarray) -> np.ndarray:
    """Return a white image with the cells of all GPUs, uint8 [height, width, 3]."""
    pixels = np.full((HEIGHT, WIDTH, 3), _WHITE, np.uint8)
    colours = np.where(rows[:, :, None] < 0, np.array(_FREE, np.uint8), job_colours(rows))
    across, down = np.arange(grid.width), np.arange(grid.height)[:, None]
    top = grid.top[:, None, None]
    pixels[top + down, grid.left[:, :, None, None] + across] = colours[:, :, None, None]
    for seat, gpu in np.argwhere(leaving).tolist():
        begin, left = grid.top[gpu] + grid.height // 2, grid.left[seat, gpu]
        pixels[begin : grid.top[gpu] + grid.height, left : left + grid.width] = _BLACK
    for gpu in grid.first_of_rack.tolist():
        node = cluster.nodes[cluster.node_of_gpu[gpu]]
        pixels[grid.top[gpu] - 1, grid.left[0, gpu] : grid.left[-1, gpu + node["gpus"] - 1] + grid.width] = _BLACK
    return pixels


def _tiers(env: Drawn) -> list[Bar]:
    """Return a bar for each tier: the GPUs that its gangs hold; shared GPUs count for each job."""
    arrays, names = env.simulation.arrays, env.simulation.instance.cluster.tiers
    running = arrays.replicas[arrays.running[: arrays.world["running"]]]
    held = {tier: int(running["gpus"][running["tier"] == tier].sum()) for tier in OUTWARDS if tier < len(names)}
    return [(f"{names[tier]}: {gpus} GPUs", gpus, _BLUE) for tier, gpus in held.items()]


def _draw_bars(draw: Any, box: Box, heading: str, bars: Sequence[Bar], room: int) -> None:
    """Draw up to ``room`` horizontal bars with their texts; the longest bar fills the box."""
    left, top, right, bottom = box
    draw.text((left, top - 16), heading, _BLACK, _font(12), "lm")
    longest = max([1.0, *(length for _, length, _ in bars)])
    each = (bottom - top) / room
    for place, (label, length, colour) in enumerate(bars):
        y = round(top + place * each)
        if length > 0:
            draw.rectangle((left, y, left + round(length / longest * (right - left)), y + each - 3), colour)
        draw.text((left + 4, y + each / 2 - 1), label, _BLACK, _font(10), "lm")
