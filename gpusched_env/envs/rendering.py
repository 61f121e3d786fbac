"""Rendering of an environment as text, and what text and picture (picture.py) share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import gymnasium as gym
import numpy as np

from gpusched_env.core.state import CHECKPOINTING
from gpusched_env.envs.window import HUMAN, need_window, show
from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.simulator.network_view import NetworkView

if TYPE_CHECKING:
    from gpusched_env.delay_timers.env import DelayTimersEnv
    from gpusched_env.envs.cluster_env import ClusterEnv

    Drawn: TypeAlias = ClusterEnv | DelayTimersEnv

RENDER_MODES: Final = ("ansi", "rgb_array", HUMAN)
FRAMES_PER_S: Final = 4
SHOWN: Final = 16  # waiting jobs shown
BUSIEST: Final = 12  # links in the picture; the text has half as many
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def check_render_mode(mode: str | None) -> None:
    """Refuse, by a ScenarioError, a render mode that does not exist; None = no pictures."""
    if mode is not None and mode not in RENDER_MODES:
        raise ScenarioError(f"render_mode: {unknown_name('render mode', mode, RENDER_MODES)}")
    if mode == HUMAN:
        need_window()


def render(env: Drawn) -> str | np.ndarray | None:
    """Draw the cluster; environments have this method: text for "ansi", uint8 [height, width, 3] for "rgb_array".

    For "human", which every reset and step draws, it shows a window and returns None.
    """
    from gpusched_env.envs.picture import picture

    if env.render_mode is None:
        gym.logger.warn('render() without render_mode: make the environment with render_mode="ansi" or "rgb_array"')
        return None
    if env.render_mode != HUMAN:
        return text(env) if env.render_mode == "ansi" else picture(env)
    show(picture(env), title(env), 1000 // FRAMES_PER_S)
    return None


def title(env: Drawn) -> str:
    """Return scenario, time, free GPUs, and the numbers of running, waiting and finished jobs."""
    world = env.simulation.arrays.world
    days, rest = divmod(round(env.simulation.now_s), 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return (
        f"{env.scenario.name}  time {f'{days}d ' if days else ''}{clock}  free {world['free_gpus']}/{world['gpus']} "
        f"GPUs  running {world['running']}  waiting {world['waiting']}  finished {world['finished']}/{world['jobs']}"
    )


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


def first_waiting(env: Drawn) -> list[tuple[int, int]]:
    """Return row and GPUs of the first waiting jobs."""
    gpus = env.simulation.instance.workload.jobs["gpus"]
    return [(int(row), int(gpus[row])) for row in env.shown_queue if row >= 0][:SHOWN]


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
    instance = env.simulation.instance
    rows, leaving = jobs_on_gpus(env)
    signs = np.where(leaving, "!", np.where(rows < 0, ".", np.array(list(_LETTERS))[rows % len(_LETTERS)]))
    lines = [title(env)]
    for number, node in enumerate(instance.cluster.nodes):
        held = signs[:, node["first_gpu"] : node["first_gpu"] + node["gpus"]].T
        cells = (" " if len(rows) > 1 else "").join("".join(gpu) for gpu in held)
        lines.append(f"rack {node['rack']:>2} node {number:>3} |{cells}|")
    queue = first_waiting(env)
    shown = " ".join(f"{_LETTERS[row % len(_LETTERS)]}x{gpus}" for row, gpus in queue)
    more = " ..." if env.simulation.arrays.world["waiting"] > len(queue) else ""
    lines.append(f"queue   {shown or '(empty)'}{more}")
    if instance.topology is not None:
        links = [f"{name}: {load:.0%} by {gangs}" for name, load, gangs in busiest_links(env, BUSIEST // 2)]
        lines.append(f"links   {', '.join(links) or '(idle)'}")
    return "\n".join(lines)
