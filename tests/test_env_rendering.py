"""Pictures and text show the state: clock, free GPUs, and the job on each GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import begin, linked_scenario, unit_instance

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.rendering import BUSIEST, job_colour, picture, text
from gpusched_env.instance import Instance
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Preempt, Start
from gpusched_env.simulator.network_view import NetworkView


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
    encoder = SimpleNamespace(queue_slots=np.array([3, -1]))
    return SimpleNamespace(scenario=SimpleNamespace(name="shared"), simulation=simulation, encoder=encoder)


def test_text_shows_all_jobs_on_a_gpu() -> None:
    env = shared_state()
    machines = [line.split("|")[1] for line in text(env).splitlines() if line.startswith("rack")]
    assert machines == ["ab ab", "ab bc"]
    env.simulation.advance()
    assert env.simulation.apply(Preempt(1)) == ""
    machines = [line.split("|")[1] for line in text(env).splitlines() if line.startswith("rack")]
    assert machines == ["a! a!", "a! !."]


def test_pictures_show_all_jobs_on_a_gpu() -> None:
    pixels = picture(shared_state())
    shown = {tuple(pixel) for pixel in pixels[:, :500].reshape(-1, 3).tolist()}
    for row in range(3):
        assert tuple(np.round(255 * np.array(job_colour(row))).astype(int).tolist()) in shown
