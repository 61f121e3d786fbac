"""Links that become slower in the middle of a run: closed forms, and the gangs that are repriced."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from helpers import linked_scenario, play
from network_play import PROFILE, AtOnce, instance_of, network

from gpusched_env.errors import ScenarioError
from gpusched_env.event_log import RATE, EventLog
from gpusched_env.metrics import job_times, lower_bounds
from gpusched_env.network import Network, NetworkChange
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import load_scenario, save_scenario
from gpusched_env.simulator import ClusterView, Decision, simulate

PLAIN = network(kind="leaf-spine", oversubscription=4.0, uplinks=1)


def changed(*changes: NetworkChange) -> Network:
    return network(kind="leaf-spine", oversubscription=4.0, uplinks=1, changes=changes)


def times(net: Network) -> tuple[Instance, EventLog, np.ndarray]:
    """Two gangs on two racks of two machines: one across racks, one on a machine."""
    instance, scheduler = instance_of("4x8/2", [{0: 2, 2: 2}, {1: 2, 3: 2}, {0: 4}], net)
    log = play(instance, scheduler)
    return instance, log, job_times(instance, log)["finish_s"]


def test_a_gang_that_crosses_the_spine_goes_on_at_the_new_pace() -> None:
    """A ring of four GPUs sends 2 x 3/4 of the gradient over the uplink, which becomes 8 times slower."""
    instance, _ = instance_of("4x8/2", [{0: 2, 2: 2}], PLAIN, 1000.0)
    [uplink] = set(instance.links["capacity"][instance.links["tier"] == 1].tolist())
    before = float(instance.iteration_s[0, 2, 0])
    after = before + 1.5 * PROFILE["gradient_bytes"] * 7 / uplink
    half = 500 * before
    changing, scheduler = instance_of("4x8/2", [{0: 2, 2: 2}], changed(NetworkChange(half, "rack", 8.0)), 1000.0)
    log = play(changing, scheduler)
    rates = log.events[log.events["kind"] == RATE]
    assert rates["time_s"].tolist() == [0.0, half]
    assert rates["value"].tolist() == pytest.approx([before, after], rel=1e-12)
    assert job_times(changing, log)["finish_s"][0] == pytest.approx(half + 500 * after, rel=1e-12)


def test_only_gangs_on_changed_links_are_repriced() -> None:
    _, plain, before = times(PLAIN)
    instance, log, after = times(changed(NetworkChange(10.0, "rack", 8.0)))
    assert after[2] == before[2]
    assert (after[:2] > before[:2]).all()
    told = log.events[(log.events["kind"] == RATE) & (log.events["time_s"] == 10.0)]
    assert sorted(told["job"].tolist()) == [0, 1]
    assert lower_bounds(instance) == lower_bounds(instance_of("4x8/2", [{0: 2, 2: 2}, {1: 2, 3: 2}, {0: 4}], PLAIN)[0])
    assert len(plain.events) + 2 == len(log.events)


def test_a_change_reverted_at_the_same_time_changes_nothing() -> None:
    _, plain, _ = times(PLAIN)
    _, log, _ = times(changed(NetworkChange(10.0, "rack", 8.0), NetworkChange(10.0, "rack", 1.0)))
    assert log.digest() == plain.digest()


def test_a_change_after_the_end_is_not_waited_for() -> None:
    _, plain, _ = times(PLAIN)
    _, log, _ = times(changed(NetworkChange(1e9)))
    assert log.digest() == plain.digest()


def test_the_view_shows_the_current_capacity_of_links() -> None:
    instance, scheduler = instance_of("4x8/2", [{0: 2, 2: 2}], changed(NetworkChange(10.0, "rack", 8.0)))
    seen = {}

    class Looking(AtOnce):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            seen[view.now_s] = view.network.capacity_Bps / view.network.links["capacity"]
            return super().decide(view)

    simulate(instance, Looking(scheduler.places))
    of_racks = instance.links["tier"] == 1
    assert of_racks.any()
    assert seen[0.0].tolist() == [1.0] * len(of_racks)
    np.testing.assert_array_equal(seen[10.0], np.where(of_racks, 1 / 8, 1.0))


def test_refusals() -> None:
    with pytest.raises(ScenarioError, match=r"slowdown is 0\.5: it must be at least 1"):
        NetworkChange(1.0, "rack", 0.5)
    with pytest.raises(ScenarioError, match="unknown tier of links 'spine'"):
        NetworkChange(1.0, "spine")
    with pytest.raises(ScenarioError, match="time_s"):
        NetworkChange(float("nan"))
    with pytest.raises(ScenarioError, match=r"network\.changes has no effect without links"):
        Network(changes=(NetworkChange(1.0),))


def test_changes_survive_a_scenario_file(tmp_path: Path) -> None:
    plain = linked_scenario()
    scenario = plain.replace(network=dataclasses.replace(plain.network, changes=(NetworkChange(60.0, "rack", 4.0),)))
    assert scenario.fingerprint() != plain.fingerprint()
    save_scenario(scenario, tmp_path / "s.json")
    assert load_scenario(tmp_path / "s.json") == scenario
