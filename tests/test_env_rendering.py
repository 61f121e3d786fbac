"""Pictures and text show the state: clock, free GPUs, and who holds what."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers import linked_scenario

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.simulator.network_view import NetworkView


def test_text_shows_clock_and_free_gpus_and_changes_as_jobs_start() -> None:
    env = ClusterEnv("tiny-v0", render_mode="ansi")
    env.reset(seed=200_000)
    texts = []
    for _ in range(30):
        text = env.render()
        assert isinstance(text, str)
        world = env.simulation.state.world[0]
        seconds = round(env.simulation.now_s)
        assert f"time {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" in text
        assert f"free {world['free_gpus']}/8 GPUs" in text
        machines = [line.split("|")[1] for line in text.splitlines() if line.startswith("rack")]
        assert [len(cells) for cells in machines] == [4, 4]
        assert "".join(machines).count(".") == world["free_gpus"]
        texts.append(text)
        if env.step(int(np.flatnonzero(env.mask)[0]))[2]:
            break
    assert len(set(texts)) > 5


def test_text_marks_gangs_that_are_being_checkpointed() -> None:
    env = ClusterEnv("philly-64-v0", render_mode="ansi")
    env.reset(seed=1)
    while not env.mask[env.windows.first_preemption : env.windows.wait_action].any():
        starts = np.flatnonzero(env.mask[: env.windows.first_preemption])
        env.step(int(starts[0]) if len(starts) else env.windows.wait_action)
    env.step(env.windows.first_preemption + int(np.argmax(env.mask[env.windows.first_preemption :])))
    assert "!" in env.render()


def test_pictures_are_pixels_that_change_as_jobs_start() -> None:
    env = ClusterEnv("tiny-v0", render_mode="rgb_array")
    env.reset(seed=200_000)
    before = env.render()
    env.step(0)
    after = env.render()
    for picture in (before, after):
        assert isinstance(picture, np.ndarray)
        assert picture.dtype == np.uint8
        assert picture.shape == (600, 960, 3)
        assert np.ptp(picture) > 100
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
    picture = pictures.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (600, 960, 3)


def test_rendering_needs_a_mode_and_a_reset() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        ClusterEnv("tiny-v0", render_mode="ansi").render()
    env = ClusterEnv("tiny-v0")
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="without render_mode"):
        assert env.render() is None
