"""Pictures and text show the state: clock, free GPUs, and the job on each GPU."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cost import lines_run
from helpers import begin, linked_scenario, unit_instance

from gpusched_env.envs.canvas import Panel, ticks
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.node_grid import NodeGrid
from gpusched_env.envs.picture import picture
from gpusched_env.envs.rendering import BUSIEST, job_colours, jobs_on_gpus, text
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Preempt, Start
from gpusched_env.simulator.network_view import NetworkView

PANEL = Panel(58, 48, 552, 552)  # of the machines
FREE = [238, 238, 238]


def test_text_shows_clock_and_free_gpus_and_changes_as_jobs_start() -> None:
    env = ClusterEnv("tiny-v1", render_mode="ansi")
    env.reset(seed=200_000)
    texts = []
    for _ in range(30):
        drawn = env.render()
        assert isinstance(drawn, str)
        world = env.simulation.arrays.world
        seconds = round(env.simulation.now_s)
        assert f"time {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" in drawn
        assert f"free {world['free_gpus']}/8 GPUs" in drawn
        machines = [line.split("|")[1] for line in drawn.splitlines() if line.startswith("rack")]
        assert [len(cells) for cells in machines] == [4, 4]
        assert "".join(machines).count(".") == world["free_gpus"]
        texts.append(drawn)
        if env.step(int(np.flatnonzero(env.mask)[0]))[2]:
            break
    assert len(set(texts)) > 5


def test_text_marks_gangs_that_are_being_checkpointed() -> None:
    env = ClusterEnv("philly-64-v1", render_mode="ansi")
    env.reset(seed=1)
    while not env.mask[env.windows.first_preemption : env.windows.wait_action].any():
        starts = np.flatnonzero(env.mask[: env.windows.first_preemption])
        env.step(int(starts[0]) if len(starts) else env.windows.wait_action)
    env.step(env.windows.first_preemption + int(np.argmax(env.mask[env.windows.first_preemption :])))
    assert "!" in env.render()


def test_pictures_are_pixels_that_change_as_jobs_start() -> None:
    env = ClusterEnv("tiny-v1", render_mode="rgb_array")
    env.reset(seed=200_000)
    before = env.render()
    env.step(0)
    after = env.render()
    for frame in (before, after):
        assert isinstance(frame, np.ndarray)
        assert frame.dtype == np.uint8
        assert frame.shape == (600, 960, 3)
        assert np.ptp(frame) > 100
    assert (before != after).any()


def test_frames_show_the_busiest_links_where_there_are_links() -> None:
    env = ClusterEnv(linked_scenario(), rules=("spread",), render_mode="ansi")
    env.reset(seed=200_000)
    assert str(env.render()).endswith("links   (idle)")
    pictures = ClusterEnv(linked_scenario(), rules=("spread",), render_mode="rgb_array")
    pictures.reset(seed=200_000)
    while NetworkView(env.simulation).loads_Bps().max() == 0:
        action = int(np.flatnonzero(env.mask)[0])
        env.step(action)
        pictures.step(action)
    network = NetworkView(env.simulation)
    busiest = int(np.lexsort([-network.flows(), -network.loads_Bps() / network.links["capacity"]])[0])
    share = network.loads_Bps()[busiest] / network.links["capacity"][busiest]
    first = str(env.render()).splitlines()[-1].removeprefix("links   ").split(", ")[0]
    assert first == f"{network.links['name'][busiest]}: {share:.0%} by {network.flows()[busiest]}"
    before = pictures.render()
    assert isinstance(before, np.ndarray)
    assert before.shape == (600, 960, 3)
    corner = before[300:, 576:]  # the panel of links
    blue = np.all(corner == (0, 114, 178), axis=2)
    # a bar of at least 8 pixels for each link
    assert blue.any(axis=1).sum() >= 8 * min((network.flows() > 0).sum(), BUSIEST)
    widest = blue.sum(axis=1).max()
    while network.loads_Bps().max() > 0:
        env.step(env.windows.wait_action)
        pictures.step(env.windows.wait_action)
    after = pictures.render()
    assert isinstance(after, np.ndarray)
    assert not np.all(after[300:, 576:] == (0, 114, 178), axis=2).any()
    assert widest > 20


def test_rendering_needs_a_mode_and_a_reset() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        ClusterEnv("tiny-v1", render_mode="ansi").render()
    env = ClusterEnv("tiny-v1")
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="without render_mode"):
        assert env.render() is None


def shared_state() -> Any:
    """Four GPUs on two machines: jobs 0 and 1 share three GPUs, jobs 1 and 2 share the last one, job 3 waits."""
    instance = unit_instance([0, 0, 0, 0], [3, 4, 1, 2], [100, 200, 50, 100], "2x2", checkpoint_s=30.0)
    instance = Instance(instance.cluster, instance.workload, instance.network, instance.semantics, Sharing(2, 1.5))
    simulation = begin(instance)
    for job, gpus in ((0, (0, 1, 2)), (1, (0, 1, 2, 3)), (2, (3,))):
        assert simulation.apply(Start(job, gpus=gpus, share=True)) == ""
    scenario = SimpleNamespace(name="shared")
    return SimpleNamespace(scenario=scenario, simulation=simulation, shown_queue=np.array([3, -1]))


def test_text_shows_all_jobs_on_a_gpu() -> None:
    env = shared_state()
    machines = [line.split("|")[1] for line in text(env).splitlines() if line.startswith("rack")]
    assert machines == ["ab ab", "ab bc"]
    env.simulation.advance()
    assert env.simulation.apply(Preempt(1)) == ""
    machines = [line.split("|")[1] for line in text(env).splitlines() if line.startswith("rack")]
    assert machines == ["a! a!", "a! !."]


def test_pictures_show_all_jobs_on_a_gpu() -> None:
    env = shared_state()
    pixels = picture(env)
    rows, _ = jobs_on_gpus(env)
    grid = NodeGrid(env.simulation.instance.cluster, 2, PANEL)
    for layer, gpu in np.ndindex(2, 4):
        left, top, _, _ = grid.cell(layer, gpu)
        row = rows[layer, gpu]
        assert pixels[top + 2, left + 2].tolist() == job_colours(row).tolist()
    assert sorted(set(rows.ravel().tolist())) == [0, 1, 2]


@pytest.mark.parametrize(
    ("groups", "limit", "side"),
    [
        ([NodeGroup(8, 8)], 1, 60),
        ([NodeGroup(310, 8, nodes_per_rack=31)], 1, 7),
        ([NodeGroup(256, 8, nodes_per_rack=8)], 1, 6),
        ([NodeGroup(1000, 2, nodes_per_rack=1)], 1, 7),
        ([NodeGroup(50, 8, nodes_per_rack=2), NodeGroup(100, 2, nodes_per_rack=25)], 1, 9),
        ([NodeGroup(60, 4)], 2, 12),
    ],
)
def test_each_gpu_has_pixels_of_its_own_in_a_row_of_its_rack(groups: list[NodeGroup], limit: int, side: int) -> None:
    cluster = Cluster(groups)
    grid = NodeGrid(cluster, limit, PANEL)
    numbers = np.arange(1, cluster.gpus * limit + 1)
    pixels = grid.pixels(np.stack([numbers // 2**k % 256 for k in (0, 8, 16)], axis=1).astype(np.uint8)).astype(int)
    shown = pixels @ [1, 256, 65536]
    for seat in numbers.tolist():
        layer, gpu = divmod(seat - 1, cluster.gpus)
        left, top, right, bottom = np.subtract(grid.cell(layer, gpu), [PANEL.left, PANEL.top] * 2)
        assert min((right - left) * limit, bottom - top) >= side - 3
        cell = shown[top:bottom, left:right]
        assert np.isin(cell, [seat, 0]).all()  # 0: the line above the next rack
        assert (cell == seat).sum() == (shown == seat).sum() > 0
    racks = cluster.nodes["rack"][cluster.node_of_gpu]
    tops = np.array([grid.cell(0, gpu)[1] for gpu in range(cluster.gpus)])
    lefts = np.array([grid.cell(0, gpu)[0] for gpu in range(cluster.gpus)])
    for rack in range(1, len(cluster.racks)):
        before, here = racks == rack - 1, racks == rack
        below = tops[here].min() > tops[before].max()
        assert below or lefts[here].min() > lefts[before].max()
        line = shown[tops[here].min() - PANEL.top - 1] if below else shown[:, lefts[here].min() - PANEL.left - 1]
        assert (line == 0).all()


def test_a_frame_of_2480_gpus_has_nodes_side_by_side_and_a_label_for_each_rack() -> None:
    env = ClusterEnv("philly-full-v1", render_mode="rgb_array")
    _, info = env.reset(seed=200_000)
    while env.simulation.arrays.world["free_gpus"] > 2_000:
        info = env.step(int(np.flatnonzero(info["action_mask"])[0]))[-1]
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert (frame.shape, frame.dtype) == ((600, 960, 3), np.uint8)
    grid = NodeGrid(env.simulation.instance.cluster, 1, PANEL)
    assert grid.node_columns > 4
    assert [label for _, label in grid.row_labels()] == [f"rack {rack}" for rack in range(10)]
    rows, leaving = jobs_on_gpus(env)
    for gpu in np.flatnonzero(~leaving[0]).tolist():
        left, top, _, _ = grid.cell(0, gpu)
        assert frame[top + 2, left + 2].tolist() == (FREE if rows[0, gpu] < 0 else job_colours(rows[0, gpu]).tolist())


def test_a_large_cluster_costs_little_more_than_a_small_one() -> None:
    """A picture drawn GPU by GPU, or with axes laid out for each frame, executes more than 100,000 lines."""
    lines = []
    for scenario in ("philly-64-v1", "philly-full-v1"):
        env = ClusterEnv(scenario, render_mode="rgb_array")
        _, info = env.reset(seed=200_000)
        for _ in range(100):
            info = env.step(int(np.flatnonzero(info["action_mask"])[0]))[-1]
        env.render()
        lines.append(lines_run(env.render))
    assert max(lines) < 25_000


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_copies_of_a_drawn_environment_play_and_draw_alike(duplicate: Any) -> None:
    env = ClusterEnv("tiny-v1", render_mode="rgb_array")
    env.reset(seed=200_000)
    before = env.render()
    twin = duplicate(env)
    for _ in range(5):
        action = int(np.flatnonzero(env.mask)[0])
        env.step(action)
    np.testing.assert_array_equal(twin.render(), before)
    assert (env.render() != before).any()
    for _ in range(5):
        twin.step(int(np.flatnonzero(twin.mask)[0]))
    np.testing.assert_array_equal(twin.render(), env.render())


@pytest.mark.parametrize(
    ("most", "count", "least", "labels"),
    [
        (8, 8, 1, "0 1 2 3 4 5 6 7 8"),
        (16, 8, 1, "0 2 4 6 8 10 12 14 16"),
        (64, 7, 1, "0 10 20 30 40 50 60"),
        (1.0, 5, 0, "0.0 0.2 0.4 0.6 0.8 1.0"),
        (3, 8, 1, "0 1 2 3"),
        (2480, 7, 1, "0 500 1000 1500 2000"),
    ],
)
def test_ticks_are_round_numbers(most: float, count: int, least: float, labels: str) -> None:
    assert " ".join(label for _, label in ticks(most, count, least)) == labels
