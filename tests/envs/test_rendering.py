"""Pictures and text show the state: clock, free GPUs, and the job on each GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import gymnasium as gym
import numpy as np
import pytest
from cost import lines_run
from helpers import begin, linked_scenario, unit_instance

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.picture import MACHINES, grid_of, picture
from gpusched_env.envs.rendering import BUSIEST, jobs_on_gpus, text
from gpusched_env.envs.window import show
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Preempt, Start
from gpusched_env.simulator.network_view import NetworkView
from gpusched_env.support.figures import job_colours

BLUE = (86, 180, 233)
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


@pytest.mark.parametrize("name", ["gpusched/Cluster-v0", "gpusched/DelayTimers-v0"])
def test_the_mode_human_shows_each_step_in_a_window(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # without a screen
    monkeypatch.setattr("gpusched_env.envs.rendering.FRAMES_PER_S", 1_000)
    pygame = pytest.importorskip("pygame")
    env = gym.make(name, render_mode="human").unwrapped
    drawn = gym.make(name, render_mode="rgb_array").unwrapped
    env.action_space.seed(0)
    _, info = env.reset(seed=200_000)
    drawn.reset(seed=200_000)
    frames = []
    for _ in range(8):
        shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
        np.testing.assert_array_equal(shown, drawn.render())
        frames.append(shown.tobytes())
        action = env.action_space.sample(info.get("action_mask"))
        info = env.step(action)[-1]
        drawn.step(action)
    assert len(set(frames)) > 1
    assert env.render() is None
    drawn.close()
    assert pygame.display.get_init()
    env.close()
    assert not pygame.display.get_init()


def test_a_window_has_the_size_of_its_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has one window: another environment's picture may have another size. Pygame is a stand-in here."""
    sizes: list[tuple[int, int]] = []
    display = Mock(get_surface=lambda: Mock(get_size=lambda: sizes[-1]) if sizes else None)
    display.set_mode.side_effect = lambda size: sizes.append(size) or Mock()
    monkeypatch.setitem(sys.modules, "pygame", Mock(display=display))
    for height, width in ((20, 30), (20, 30), (50, 40)):
        show(np.zeros((height, width, 3), np.uint8), "", 0)
    assert sizes == [(30, 20), (40, 50)]


def test_the_mode_human_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(gym.error.DependencyNotInstalled, match=r"gpusched-env\[human\]"):
        ClusterEnv("tiny-v1", render_mode="human")


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
    blue = np.all(corner == BLUE, axis=2)
    # a bar of at least 8 pixels for each link
    assert blue.any(axis=1).sum() >= 8 * min((network.flows() > 0).sum(), BUSIEST)
    widest = blue.sum(axis=1).max()
    while network.loads_Bps().max() > 0:
        env.step(env.windows.wait_action)
        pictures.step(env.windows.wait_action)
    after = pictures.render()
    assert isinstance(after, np.ndarray)
    assert not np.all(after[300:, 576:] == BLUE, axis=2).any()
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
    grid = grid_of(env.simulation.instance.cluster, 2)
    for layer, gpu in np.ndindex(2, 4):
        shown = pixels[grid.top[gpu] + 2, grid.left[layer, gpu] + 2]
        assert shown.tolist() == job_colours(rows[layer, gpu]).tolist()
    assert sorted(set(rows.ravel().tolist())) == [0, 1, 2]


@pytest.mark.parametrize(
    ("groups", "limit", "side"),
    [
        ([NodeGroup(8, 8)], 1, 60),
        ([NodeGroup(310, 8, nodes_per_rack=31)], 1, 8),
        ([NodeGroup(256, 8, nodes_per_rack=8)], 1, 8),
        ([NodeGroup(1000, 2, nodes_per_rack=1)], 1, 8),
        ([NodeGroup(50, 8, nodes_per_rack=2), NodeGroup(100, 2, nodes_per_rack=25)], 1, 12),
        ([NodeGroup(60, 4)], 2, 16),
    ],
)
def test_each_gpu_has_pixels_of_its_own_between_those_of_its_rack(
    groups: list[NodeGroup], limit: int, side: int
) -> None:
    cluster = Cluster(groups)
    grid = grid_of(cluster, limit)
    owner = np.zeros((600, 960), int)
    for layer, gpu in np.ndindex(limit, cluster.gpus):
        top, left = grid.top[gpu], grid.left[layer, gpu]
        cell = owner[top : top + grid.height, left : left + grid.width]
        assert cell.shape == (grid.height, grid.width)
        assert (cell == 0).all()
        cell[:] = layer * cluster.gpus + gpu + 1
    assert min(grid.width * limit, grid.height) >= side
    left, top, right, bottom = MACHINES
    owner[top:bottom, left:right] = 0
    assert not owner.any()
    first = cluster.nodes["first_gpu"]
    column_by_column = np.lexsort([grid.top[first], grid.left[0, first]])
    assert (np.diff(cluster.nodes["rack"][column_by_column]) >= 0).all()
    racks = cluster.nodes["rack"][cluster.node_of_gpu]
    assert racks[grid.first_of_rack].tolist() == list(range(1, len(cluster.racks)))


def test_a_gpu_of_a_gang_that_is_being_checkpointed_is_half_black() -> None:
    env = shared_state()
    env.simulation.advance()
    assert env.simulation.apply(Preempt(1)) == ""
    pixels = picture(env)
    rows, leaving = jobs_on_gpus(env)
    grid = grid_of(env.simulation.instance.cluster, 2)
    for layer, gpu in np.argwhere(leaving).tolist():
        column = pixels[grid.top[gpu] : grid.top[gpu] + grid.height, grid.left[layer, gpu] + 2].tolist()
        assert column[2] == job_colours(rows[layer, gpu]).tolist()
        assert column[-2] == [0, 0, 0]
    assert leaving.sum() == 4


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
