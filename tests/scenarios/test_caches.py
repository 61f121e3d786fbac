"""What draws share: tables that do not depend on the seed. They are read-only, and no other scenario gets them."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from helpers import small_scenario

from gpusched_env.core.state import allocate, refill
from gpusched_env.errors import ScenarioError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.performance import ClassTable
from gpusched_env.problem.workload import Profiles
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import Simulation, Start
from gpusched_env.traces import generate_workload, mix_profiles
from gpusched_env.traces.generators.bursty import _gang_table
from gpusched_env.traces.generators.synthetic import CALIBRATIONS

TIMES = ("classes", "iteration_s", "compute_s", "communication_s", "measured", "ideal_iteration_s", "ideal_s")


def alone(scenario: Scenario, seed: int) -> Instance:
    """An instance without what earlier draws have computed."""
    workload = scenario.workload.draw(seed, scenario.log, scenario.cluster.gpus, scenario.cluster.gpu_types)
    return Instance(Cluster(scenario.groups), workload, scenario.network, scenario.semantics, scenario.sharing)


def assert_equal(one: Instance, other: Instance) -> None:
    for name in TIMES:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize(
    "name", ["philly-64-v1", "leaf-spine-256-v1", "hadar-60gpu-v1", "gavel-continuous-v1:gangs=mixed", "rar-160-v0"]
)
def test_earlier_draws_change_nothing(name: str) -> None:
    scenario = get_scenario(name).replace(tracked_window=None)
    scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=40))
    for seed in (3, 1, 2, 3):
        assert_equal(scenario.instance(seed), alone(scenario, seed))


def test_scenarios_that_draw_in_turn_keep_their_own_times() -> None:
    one = small_scenario(60)
    others = [
        one.replace(network=Network("none")),
        one.with_cluster(Cluster.parse("64x1/8")),
        one.replace(workload=dataclasses.replace(one.workload, profiles="unit")),
    ]
    for seed in (0, 1):
        for scenario in (one, *others):
            assert_equal(scenario.instance(seed), alone(scenario, seed))
    instances = [scenario.instance(0) for scenario in (one, *others)]
    times = {str((instance.iteration_s.tolist(), instance.ideal_iteration_s.tolist())) for instance in instances}
    assert len(times) == len(instances)


def test_a_table_of_another_cluster_or_network_is_refused() -> None:
    scenario = small_scenario(10)
    workload = scenario.instance(0).workload
    for table in (
        ClassTable(Cluster(scenario.groups), scenario.network),
        ClassTable(scenario.cluster, Network("none")),
    ):
        with pytest.raises(ScenarioError, match="another cluster or network"):
            Instance(scenario.cluster, workload, scenario.network, table=table)


def test_instances_of_a_scenario_may_be_written_to() -> None:
    scenario = small_scenario(60)
    first, second = scenario.instance(0), scenario.instance(0)
    for name in TIMES:
        getattr(first, name)[:] = 0
    first.workload.jobs["gpus"] = 1
    assert_equal(second, alone(scenario, 0))
    assert_equal(scenario.instance(0), alone(scenario, 0))


def test_a_copy_of_a_scenario_draws_alike() -> None:
    scenario = small_scenario(60)
    scenario.instance(0)
    assert_equal(pickle.loads(pickle.dumps(scenario)).instance(1), scenario.instance(1))


def test_shared_arrays_are_read_only() -> None:
    cluster = Cluster.parse("4x8s2/2")
    profiles = [mix_profiles(), Profiles.unit(), Profiles.unit("K80", "V100")]
    handles = [calibration.tables for calibration in CALIBRATIONS.values()]
    handles.append(_gang_table(((1, 0.5), (4, 0.5)), 8))
    shared = [cluster.nodes, cluster.racks, cluster.slots, cluster.slot_gpus, cluster.node_of_gpu]
    shared += [array for table in profiles for array in vars(table).values() if isinstance(array, np.ndarray)]
    shared += [getattr(handle, name) for handle in handles for name in handle.fields]
    assert len(shared) == 5 + 3 * 6 + 3 * 8 + 3
    assert not any(array.flags.writeable for array in shared)
    assert mix_profiles() is mix_profiles()
    assert Profiles.unit() is Profiles.unit("V100") is not Profiles.unit("K80")


def test_gang_sizes_of_one_limit_are_not_those_of_another() -> None:
    largest = [int(generate_workload("philly", 0, 2_000, limit).jobs["gpus"].max()) for limit in (4, None, 8, 4)]
    assert largest == [4, 16, 8, 4]
    only = generate_workload("philly", 0, 50, 32, demand={"2": 1.0}).jobs["gpus"]
    assert set(only.tolist()) == {2}


def test_a_run_that_is_filled_again_is_as_new() -> None:
    scenario = small_scenario(30)
    first, second = scenario.instance(0), scenario.instance(1)
    state = allocate([first, first, second])
    for b in (0, 1):
        simulation = Simulation(first, arrays=state.handle(b))
        simulation.advance()
        assert simulation.apply(Start(0, "pack")) == ""
        simulation.advance()
    played = pickle.loads(pickle.dumps(state))
    refill(state, 0, second, 0)
    refill(played, 0, second, 0)
    for name in state.own:
        if name not in ("events", "event_gpus"):
            new = getattr(state, name)[2].tobytes()
            assert getattr(state, name)[0].tobytes() == new, name
            assert getattr(played, name)[0].tobytes() == new, name
            assert getattr(state, name)[1].tobytes() == getattr(played, name)[1].tobytes(), name


def test_threads_may_draw_from_one_scenario() -> None:
    """Where cached properties have no lock, each thread may build its own cluster and its own table of classes."""
    scenario = get_scenario("tiny-v1").replace(name="threads")
    scenario.cluster  # noqa: B018 - built before the table, by another thread
    object.__setattr__(scenario, "_class_table", ClassTable(Cluster(scenario.groups), scenario.network))
    assert scenario.instance(3).cluster.gpus == scenario.cluster.gpus
