"""Themis with auctions: schedules by hand, leases, leftover GPUs, tenants as apps, elastic jobs, moves."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from helpers import finish, play, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.themis.arbiter import ThemisArbiter
from gpusched_env.baselines.themis.offering import App, Offering, Step
from gpusched_env.baselines.themis.places import Place, Places, menu_of, tightest
from gpusched_env.event_log import LEASE_END, RESIZE, RESUME, START, EventLog
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partitions, Reservation
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import TENANT, Profiles, Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Decision, Outcome, Simulation, Start
from gpusched_env.simulator.past import Move, begin
from gpusched_env.traces.elastic import make_elastic


def with_tenants(arrival: list[float], gpus: list[int], seconds: list[float], tenants: str, cluster: str) -> Instance:
    """Jobs whose tenants are named by the letters of ``tenants``."""
    workload = Workload.from_columns(arrival, gpus, seconds).unchecked_replace(
        attributes={TENANT: np.array(list(tenants))}
    )
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(Cluster.parse(cluster), workload, Network("none"), rules, tenants=Tenants())


def elastic_instance(gpus: list[int], seconds: list[float], most: int, cluster: str) -> Instance:
    """Jobs of time 0 that run on 1 to ``most`` GPUs, k times as fast on k."""
    jobs = Workload.from_columns([0.0] * len(gpus), gpus, seconds)
    speeds = {size: float(size) for size in range(1, most + 1)}
    workload = make_elastic(jobs, speeds.__getitem__, least=1, most=most, step=1)
    return Instance(Cluster.parse(cluster), workload, Network("none"), Semantics(checkpoint_s=0.0, restore_s=0.0))


def started(log: EventLog, time_s: float = 0.0) -> dict[int, int]:
    """Number of GPUs of each gang that starts or resumes at ``time_s``."""
    chosen = [e for e in log.events if e["kind"] in (START, RESUME) and e["time_s"] == time_s]
    return {int(e["job"]): int(e["gpu_count"]) for e in chosen}


# --- schedules by hand


def test_all_bid_and_nobody_pays() -> None:
    """At 1,200 s, rho falls from 3600 to 2400 if job 0 runs, and from 4800 to 3600 if job 1 does: job 0 gains more."""
    instance = unit_instance([0, 0], [4, 4], [2400, 2400], "1x4")
    assert finish(instance, "themis:fairness_knob=0,payment=none") == [2400, 4800]


def test_gangs_that_pay_gpus_cannot_run() -> None:
    """The winner, job 0, keeps 4800/3600 = 3/4 of four GPUs. All GPUs are left, and go to the larger rho: job 1."""
    instance = unit_instance([0, 0], [4, 4], [2400, 2400], "1x4")
    assert finish(instance, "themis:fairness_knob=0") == [3600, 4800]


def test_a_winner_pays_with_time() -> None:
    """Job 0 may keep c = V_1(0 GPUs) / V_1(4 GPUs) = 2400 / 3600 of its lease."""
    instance = unit_instance([0, 0], [4, 4], [2400, 2400], "1x4")
    log = play(instance, "themis-lease:fairness_knob=0")
    assert log.events["time_s"][log.events["kind"] == LEASE_END][0] == pytest.approx(1200 * 2 / 3)


# --- T_id


class Watched(ThemisArbiter):
    """Record T_id of all jobs at each decision point."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from super().decide(view)
        self.seen = getattr(self, "seen", {})
        apps = np.unique(self._apps.of(view, np.sort(np.concatenate([view.waiting, view.running]))))
        self.seen[view.now_s] = dict(zip(apps.tolist(), self._apps.private_s(view, apps).tolist(), strict=True))


def test_the_private_time_counts_the_mean_number_of_apps() -> None:
    """8 GPUs. Alone until 100 s, two jobs until 150 s, three until 200 s: 200, 1.75 x 200, ... s."""
    scheduler = Watched()
    Simulation(unit_instance([0, 100, 150], [8, 4, 8], [200, 200, 100], "1x8")).run(scheduler)
    assert scheduler.seen[0.0] == {0: 200}
    assert scheduler.seen[150.0] == pytest.approx({0: 200 * 200 / 150, 1: 200 * 2, 2: 100 * 3})
    assert scheduler.seen[200.0] == pytest.approx({1: 200 * 2.5, 2: 100 * 3})


def test_a_tenant_is_one_app_from_its_first_job_to_its_last() -> None:
    """Tenant a has 4 x 200 + 2 x 200 GPU s for at most 6 GPUs: 200 s on the whole cluster; b has 100 s."""
    scheduler = Watched(app="tenant")
    instance = with_tenants([0, 0, 0, 700], [4, 2, 2, 2], [200, 200, 100, 50], "aaba", "1x8")
    Simulation(instance).run(scheduler)
    a, b = (instance.tenancy[0].names.index(name) for name in "ab")
    assert [scheduler.seen[0.0][row] for row in (a, b)] == [2 * 200, 2 * 100]
    assert scheduler.seen[700.0][a] == 50  # the earlier jobs have finished


# --- elastic jobs and tenants


def test_elastic_winners_keep_part_of_their_gpus() -> None:
    """V = k / work: two win two GPUs each and may keep one; the leftover GPUs come back to them in turn."""
    instance = elastic_instance([1, 1], [4000, 4000], 4, "1x4")
    assert started(play(instance, "themis:fairness_knob=0")) == {0: 2, 1: 2}
    assert started(play(instance, "themis:fairness_knob=1")) == {0: 4}  # one bidder displaces nobody


def test_leftover_gpus_go_to_apps_that_have_not_bid() -> None:
    """Of five jobs, two bid. They win two and three of five GPUs and keep one each; three go to the other three."""
    instance = elastic_instance([1] * 5, [4000, 4000, 9000, 9000, 9000], 5, "1x5")
    sizes = started(play(instance, "themis:fairness_knob=0.6"))
    assert sizes[0] == sizes[1] == 1
    assert sum(sizes[job] for job in (2, 3, 4) if job in sizes) == 3


def test_tenants_win_gpus_for_several_jobs() -> None:
    """Both tenants have four gangs of one: each wins two GPUs, keeps one, and gets one of the leftover GPUs."""
    instance = with_tenants([0] * 8, [1] * 8, [1000] * 8, "aaaabbbb", "1x4")
    for options in ("fairness_knob=0", "fairness_knob=0,payment=none"):
        assert sorted(started(play(instance, f"themis:app=tenant,{options}"))) == [0, 1, 4, 5]
    assert sorted(started(play(instance, "themis:app=tenant,fairness_knob=1"))) == [0, 1, 2, 3]


# --- leftover GPUs and places


def view_of(instance: Instance) -> ClusterView:
    simulation = Simulation(instance)
    assert simulation.advance() is Outcome.DECIDE
    return simulation.view_for(make_scheduler("themis"))


@pytest.mark.parametrize("seed", range(5))
def test_apps_that_use_a_machine_come_first(seed: int) -> None:
    """Two of six GPUs of two nodes are left; job 2 uses the second node, so it gets one first, at any seed."""
    view = view_of(unit_instance([0, 0, 0], [1, 1, 1], [9, 9, 9], "2x3"))
    menus = [menu_of(view, job) for job in range(3)]
    offering = Offering(Places(view, np.array([1, 1])), menus, {}, np.ones(3), np.array([1, 1]), 0.0)
    offering.give_away([App([job]) for job in range(3)], np.random.default_rng(seed), {2: np.array([False, True])})
    assert offering.grants[2].nodes.tolist() == [0, 1]
    assert len(offering.grants) == 2
    assert offering.places.total == 0


@pytest.mark.parametrize(
    ("room", "size", "tier", "nodes"),
    [
        ([2, 4, 3, 8], 3, 0, [0, 0, 3, 0]),  # the node with the least room that suffices
        ([2, 4, 3, 4], 6, 1, [2, 4, 0, 0]),  # the rack with the least room that suffices
        ([2, 4, 3, 4], 13, 2, [2, 4, 3, 4]),
        ([1, 2, 2, 1], 4, 2, [0, 2, 2, 0]),  # nodes with the most room first
        ([1, 1, 1, 1], 5, None, []),
    ],
)
def test_tightest_places(room: list[int], size: int, tier: int | None, nodes: list[int]) -> None:
    found = tightest(np.array(room), np.array([0, 0, 1, 1]), size)
    assert (found is None) if tier is None else (found is not None and (found[0], found[1].tolist()) == (tier, nodes))


def test_a_gang_moves_to_faster_gpus_if_that_pays() -> None:
    """Gangs of 3 leave one GPU in each of two racks, so a gang of 2 starts slowly; at its lease end it moves."""
    profiles = Profiles.from_rows(
        [dict(name="m", batch=1, gradient_bytes=1e9, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(0.1,))]
    )
    cluster = Cluster.parse("2x4/1")
    workload = Workload.from_columns([0, 0, 0], [3, 3, 2], [100, 9000, 9000], profiles=profiles, profile=[0, 0, 0])
    for restore_s, moves in ((30.0, 1), (1e6, 0)):
        instance = Instance(cluster, workload, None, Semantics(checkpoint_s=0.0, restore_s=0.0, resize_s=restore_s))
        log = play(instance, "themis:fairness_knob=1")
        assert int((log.events["kind"] == RESIZE).sum()) == moves


def test_a_winner_without_a_place_owes_nothing() -> None:
    """Two of three apps win two of four GPUs each and would pay; the second finds no place and owes nothing later."""

    class Narrow(Offering):
        def _place(self, step: Step, used: np.ndarray | None = None) -> Place | None:
            return None if self.grants else super()._place(step, used)

    view = view_of(unit_instance([0, 0, 0], [2, 2, 2], [9, 9, 9], "1x4"))
    menus = [menu_of(view, job) for job in range(3)]
    offering = Narrow(Places(view, np.array([4])), menus, {}, np.ones(3), np.array([4]), 0.0)
    offering.sell([App([job], 1.0, 18.0) for job in range(3)], 1200.0, "lease")
    assert offering.shares.keys() == offering.grants.keys() == {0}
    assert offering.shares[0] < 1


def test_a_job_that_loses_its_promised_gpus_owes_nothing() -> None:
    view = view_of(unit_instance([0], [4], [9], "1x4"))
    themis = ThemisArbiter(payment="lease")
    themis.reset(view)
    themis._grants[0], themis._shares[0] = Place(np.array([4]), 4.0, 4), 0.5
    themis._drop(0)
    assert themis._lease(view, 0).until_s == 1200.0


# --- runs


OPTIONS = ("", ",payment=lease", ",payment=none", ",fairness_knob=0.3", ",app=tenant", ",estimator=noisy")


class Conserving(ThemisArbiter):
    """Check that no gang waits for GPUs that are free and promised to nobody."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from super().decide(view)
        waiting = [job for job in view.waiting.tolist() if job not in self._grants]
        assert all(view.gpus[job] > self._free.sum() for job in waiting)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 30.0]), st.sampled_from(["gpus", "lease", "none"]))
def test_no_gpu_is_idle_while_a_gang_fits(seed: int, cost: float, payment: str) -> None:
    instance = random_instance(seed, 30, checkpoint_s=cost, restore_s=cost)
    Simulation(instance).run(Conserving(lease_s=120.0, payment=payment))


@pytest.mark.parametrize("option", OPTIONS)
def test_elastic_runs_are_valid(option: str) -> None:
    instance = get_scenario("pollux-64-v0:jobs=40").instance(200_000)
    log = play(instance, f"themis:lease_s=600{option}")
    assert len(set(log.events["gpu_count"][log.events["kind"] == START].tolist())) > 3


def test_gangs_of_a_begun_run_get_leases() -> None:
    """Job 0 was started by somebody else; its lease begins when Themis is asked first."""
    instance = unit_instance([0, 100], [4, 4], [5000, 100], "1x4")
    simulation = begin(instance, [Move(0.0, Start(0))], 50.0)
    simulation.run(make_scheduler("themis"))
    ends = simulation.log().events
    assert ends["time_s"][ends["kind"] == LEASE_END].tolist()[0] == 50 + 1200


def test_a_gang_that_a_reservation_preempts_starts_again() -> None:
    """It leaves at 70 s, in time for its checkpoint; its node is open again at 110 s."""
    rules = Semantics(checkpoint_s=30.0, restore_s=0.0)
    shut = Partitions(reservations=(Reservation("maintenance", 100.0, 110.0, nodes="0"),))
    workload = Workload.from_columns([0.0], [4], [500.0])
    instance = Instance(Cluster.parse("1x4"), workload, Network("none"), rules, partitions=shut)
    assert finish(instance, "themis") == [110 + 430]
