"""The search of orders and GPU types: its rival, a schedule that it improves, jobs that arrive later, and its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.agents.order_search import OrderSearch
from gpusched_env.agents.type_order_search import (
    CALMER,
    DEFAULTS,
    NAMES,
    RIVAL,
    TypeOrder,
    TypeOrderSearch,
    in_time,
)
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClairvoyantView, Simulation, Start, simulate
from studies.index_search.makespan_headroom import makespan_bound_of_types
from studies.index_search.saving import save_weights
from studies.index_search.type_orders import end_of_orders_s, end_of_rival_s, weights_of

SMALL = "hadar-60gpu-v1:nodes=2,jobs=100"


def search(rehearsals: int = 20) -> TypeOrderSearch:
    return TypeOrderSearch.playing(DEFAULTS, rehearsals=rehearsals)


def begun(instance: Instance, policy: TypeOrderSearch) -> ClairvoyantView:
    """Return the view at the first decision point, when all jobs have arrived."""
    simulation = Simulation(instance)
    simulation.advance()
    view = simulation.view_for(policy)
    assert isinstance(view, ClairvoyantView)
    policy.reset(view)
    return view


def makespan_s(instance: Instance, policy: TypeOrderSearch) -> float:
    simulation = Simulation(instance)
    simulation.run(policy)
    return float(simulation.arrays.jobs["finish_s"].max())


def test_it_plays_its_best_order_where_that_is_better_than_the_rival() -> None:
    instance = get_scenario(SMALL).instance(0)
    policy, rival_s = search(5), end_of_rival_s(instance)
    assert makespan_s(instance, policy) == policy._best.end_s < 0.98 * rival_s
    assert policy._best.end_s >= makespan_bound_of_types(instance)


def test_it_plays_the_rival_where_no_order_is_better() -> None:
    instance = get_scenario(SMALL).instance(2)
    policy = search(5)
    digests = {simulate(instance, make_scheduler(spec)).digest() for spec in (RIVAL, CALMER)}
    assert simulate(instance, policy).digest() in digests
    assert end_of_orders_s(DEFAULTS, instance, policy._best.end_s) > policy._best.end_s


def test_prices_balance_the_work_of_the_types() -> None:
    instance = get_scenario("hadar-60gpu-v1").instance(0)
    policy = search()
    policy._read(begun(instance, policy))

    def largest_share(prices: np.ndarray) -> float:
        kinds = in_time(policy._costs(prices), policy._run_s, policy._least_s).argmin(axis=0)
        work = np.bincount(kinds, policy._gangs * policy._run_s[kinds, np.arange(len(kinds))], 3)
        return float(work.max() / work.sum())

    assert largest_share(policy._balanced(policy._least_s)) < 0.5 < largest_share(np.zeros(3))


def test_jobs_choose_cheap_types_in_time_and_gangs_whole_machines() -> None:
    costs, run_s = np.array([[2.0, 2.0], [1.0, 1.0]]), np.array([[5.0, 5.0], [9.0, 20.0]])
    assert in_time(costs, run_s, 10.0).tolist() == [[2.0, 2.0], [1.0, np.inf]]
    assert in_time(costs, run_s, 1.0).tolist() == [[2.0, 2.0], [np.inf, np.inf]]  # too late: its fastest type
    instance = get_scenario("hadar-60gpu-v1:gangs=large,jobs=40").instance(0)
    policy = search()
    view = begun(instance, policy)
    policy._read(view)
    policy._rival_s = 2.0 * policy._least_s
    order = policy._fresh(None)
    assert isinstance(order, TypeOrder)
    nodes = view.cluster.node_of_gpu
    for start in order.starts(view):
        assert isinstance(start, Start)
        assert start.gpus is not None
        used = set(nodes[list(start.gpus)].tolist())
        assert len({view.cluster.nodes["gpu_type"][node] for node in used}) == 1
        assert len(used) == max(1, len(start.gpus) // 4)
        assert view.simulation.apply(start) == ""


def test_the_rival_takes_over_when_jobs_arrive_later() -> None:
    instance = get_scenario("hadar-60gpu-v1:nodes=2,jobs=30,arrivals=poisson").instance(0)
    simulation = Simulation(instance)
    simulation.run(search(3))
    assert np.isfinite(simulation.arrays.jobs["finish_s"]).all()


def test_a_time_limit_that_no_plan_meets_leaves_the_rival() -> None:
    scenario = get_scenario("hadar-60gpu-v1:nodes=2,jobs=20")
    semantics = dataclasses.replace(scenario.semantics, time_limit_s=7_200.0)
    instance, policy = dataclasses.replace(scenario, semantics=semantics).instance(0), search(3)
    assert simulate(instance, policy).digest() == simulate(instance, make_scheduler(RIVAL)).digest()


def test_runs_repeat_and_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    save_weights(TypeOrderSearch, path, DEFAULTS, {})
    made = make_scheduler(f"learned:path={path},rehearsals=5")
    assert isinstance(made, TypeOrderSearch)
    assert (made.rule, made.rehearsals, made.clairvoyant) == (DEFAULTS, 5, True)
    instance = get_scenario("hadar-60gpu-v1:nodes=2,jobs=20").instance(0)
    assert simulate(instance, made).digest() == simulate(instance, made).digest()
    save_weights(OrderSearch, path, DEFAULTS[: len(OrderSearch.names)], {})
    with pytest.raises(SchedulerError, match=r"w\.npz: "):
        TypeOrderSearch(path=str(path))


def test_weights_stay_in_their_ranges() -> None:
    assert weights_of(np.zeros(len(NAMES))) == DEFAULTS
    far = dict(zip(NAMES, weights_of(np.full(len(NAMES), -9.0)), strict=True))
    assert far["first"] == 0.05
    assert min(far["price"], far["gang_spread"], far["noise"], far["patience"], far["jump"]) > 0
