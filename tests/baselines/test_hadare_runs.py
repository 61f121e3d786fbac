"""HadarE in the simulator: worked examples, slots played without the simulator, single copies, conservation of work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hadare_play import AWS, LAB, mix, play_slots
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.hadar.hadare import HadarE
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import job_times, summarise
from gpusched_env.metrics.segments import productive_s, segments
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import ClairvoyantView, Decision, Lease, Preempt, Scheduler, Start, Wait

SPEEDS = np.array([10.0, 6.5, 2.0])
RULES = {"checkpoint_s": 0.0, "restore_s": 10.0, "start_s": 10.0, "merge_s": 5.0}


def nodes_and_jobs(
    iterations: Sequence[float] | np.ndarray, rates: np.ndarray, size: int = 1, gang: int = 1,
    arrival_s: Sequence[float] | None = None, **rules: float,
) -> Instance:  # fmt: skip
    """One model for each job; its ``rates`` [J, n] differ between n nodes of ``size`` GPUs."""
    names = [f"t{i}" for i in range(rates.shape[1])]
    rows = [
        dict(name=f"m{i}", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0,
             compute_s=tuple(1.0 / row))
        for i, row in enumerate(rates)
    ]  # fmt: skip
    count = len(rates)
    workload = Workload.from_columns(
        np.zeros(count) if arrival_s is None else arrival_s, [gang] * count, iterations=np.array(iterations),
        profiles=Profiles.from_rows(rows, tuple(names)), profile=range(count),
    )  # fmt: skip
    cluster = Cluster([NodeGroup(1, size, name) for name in names])
    semantics = Semantics(**(RULES | {"max_copies": len(names)} | rules))  # type: ignore[arg-type]
    return Instance(cluster, workload, Network("none"), semantics)


def ends_of(instance: Instance, **parameters: object) -> np.ndarray:
    return job_times(instance, play(instance, HadarE(**parameters)))["finish_s"]  # type: ignore[arg-type]


def training_share(instance: Instance, log: EventLog) -> float:
    """Share of the GPUs' time until the last end that is training, not restore or merge."""
    table = segments(instance, log, np.inf)
    busy = (productive_s(table) * table["gpus"]).sum()
    return float(busy / (instance.cluster.gpus * job_times(instance, log)["finish_s"].max()))


def test_one_job_on_three_nodes() -> None:
    instance = nodes_and_jobs([10_000.0], SPEEDS[None, :])
    log = play(instance, HadarE())
    assert job_times(instance, log)["finish_s"][0] == pytest.approx(570.5405, abs=5e-5)
    assert training_share(instance, log) == pytest.approx(0.947418, abs=1e-6)
    first = segments(instance, log, np.inf)[0]
    done = SPEEDS * productive_s(segments(instance, log, np.inf))[0]
    assert done == pytest.approx([3_450.0, 2_242.5, 690.0])
    assert 1.0 / first["iteration_s"] == pytest.approx(18.5)
    assert ends_of(instance, copies=1)[0] == pytest.approx(1_010.0)


def test_two_jobs_on_three_nodes() -> None:
    """The longer job takes the fastest node and the spare one; single copies lose the third node, but no restart."""
    instance = nodes_and_jobs([6_000.0, 3_000.0], np.tile(SPEEDS, (2, 1)))
    log = play(instance, HadarE())
    assert job_times(instance, log)["finish_s"] == pytest.approx([530.0, 481.538], abs=1e-3)
    assert training_share(instance, log) == pytest.approx(0.919207, abs=1e-6)
    told = summarise(instance, log)
    assert told["utilisation"] * told["productive_share"] == pytest.approx(0.919207, abs=1e-6)
    assert told["productive_share"] + told["overhead_share"] == pytest.approx(1.0)
    alone = play(instance, HadarE(copies=1))
    assert job_times(instance, alone)["finish_s"] == pytest.approx([610.0, 471.538], abs=1e-3)
    assert training_share(instance, alone) == pytest.approx(0.580076, abs=1e-6)


@pytest.mark.parametrize(("speeds", "factor"), [(AWS, 1.772917), (LAB, 2.84625)])
def test_the_gain_of_a_long_job(speeds: np.ndarray, factor: float) -> None:
    """With 400 slots the last one is negligible: (sum / fastest) x 345 / 360."""
    instance = nodes_and_jobs([400 * 345 * speeds.sum()], speeds[None, :])
    single, forked = ends_of(instance, copies=1)[0] - 10.0, ends_of(instance)[0]
    assert single / forked == pytest.approx(factor, rel=1e-6)


mixes = st.tuples(st.integers(0, 2**31), st.integers(1, 8), st.sampled_from([AWS, LAB]), st.booleans())


@settings(max_examples=25)
@given(mixes, st.sampled_from([None, 1, 2]), st.sampled_from([90.0, 360.0]))
def test_runs_equal_the_slots_played_without_the_simulator(drawn, copies: int | None, slot_s: float) -> None:  # type: ignore[no-untyped-def]
    """Equal ends and equal share of training; validate() finds every iteration in the work of the copies."""
    seed, jobs, speeds, varied = drawn
    remaining, rates = mix(seed, jobs, speeds, varied)
    expected = play_slots(remaining, rates, slot_s, copies)
    instance = nodes_and_jobs(remaining, rates)
    log = play(instance, HadarE(slot_s=slot_s, copies=copies or 0))
    assert job_times(instance, log)["finish_s"] == pytest.approx(expected.ends, rel=1e-9)
    assert training_share(instance, log) == pytest.approx(expected.utilisation, rel=1e-9)
    table = segments(instance, log, np.inf)
    assert (productive_s(table) / table["iteration_s"]).sum() == pytest.approx(remaining.sum(), rel=1e-9)


class Migrating(Scheduler):
    """The single-copy scheduler, written independently:
    in each slot every job, longest first, takes its fastest free node.
    """

    clairvoyant = True

    def decide(self, view) -> Iterator[Decision]:  # type: ignore[no-untyped-def]
        assert isinstance(view, ClairvoyantView)
        now = view.now_s
        if now % 360.0:
            yield Wait(now - now % 360.0 + 360.0)
            return
        rows = np.sort(np.concatenate([view.running, view.waiting]))
        speed = view.rates_per_s[view.job_class[rows], 0]
        length = view.iterations_left(rows) / speed.max(axis=1)
        free, taken = list(range(speed.shape[1])), {}
        for i in sorted(range(len(rows)), key=lambda i: (-length[i], i))[: len(free)]:
            node = max(free, key=lambda node: (speed[i, node], -node))
            free.remove(node)
            taken[int(rows[i])] = node
        holders = view.holders.tolist()
        stays = {row: node for row, node in taken.items() if holders[node] == row}
        yield from [Lease(row, now + 360.0) for row in sorted(stays)]
        yield from [Preempt(row) for row in view.running.tolist() if row not in stays]
        for row in sorted(set(taken) - set(stays)):
            yield Start(row, gpus=(taken[row],))
            yield Lease(row, now + 360.0)
        yield Wait(now + 360.0)


@pytest.mark.parametrize("seed", range(6))
def test_one_copy_gives_the_log_of_a_single_copy_scheduler(seed: int) -> None:
    instance = nodes_and_jobs(*mix(seed, 1 + 2 * seed, LAB, True))
    assert play(instance, HadarE(copies=1)).digest() == play(instance, Migrating()).digest()
    single = Instance(instance.cluster, instance.workload, instance.network, Semantics(**RULES))
    assert (play(single, HadarE()).events == play(single, HadarE(copies=1)).events).all()


def test_nodes_are_idle_until_the_slot_ends_or_are_refilled() -> None:
    """One node of 10 steps a second:
    the second job starts at 720 s, or with refilling at 610 s, when the first job ends.
    """
    instance = nodes_and_jobs([6_000.0, 1_000.0], np.full((2, 1), 10.0))
    assert ends_of(instance).tolist() == [610.0, 830.0]
    assert ends_of(instance, refill=True).tolist() == [610.0, 720.0]


def test_a_running_job_takes_a_refilled_node_if_that_pays() -> None:
    """At 110 s 8,000 steps are left:
    two copies do 4,700 by 360 s, the rest by 360 + 15 + 165 s. For 200 steps it does not pay.
    """
    pair = np.full((2, 2), 10.0)
    assert ends_of(nodes_and_jobs([9_000.0, 1_000.0], pair), refill=True) == pytest.approx([540.0, 110.0])
    assert ends_of(nodes_and_jobs([1_200.0, 1_000.0], pair), refill=True) == pytest.approx([130.0, 110.0])


def test_sticky_jobs_stay_where_they_are() -> None:
    """Speeds 10 and 1: the second job stays on the slow node until its end, although a migration would pay."""
    instance = nodes_and_jobs([3_000.0, 2_900.0], np.tile([10.0, 1.0], (2, 1)))
    assert ends_of(instance, copies=1, sticky=True).tolist() == [310.0, 2_910.0]
    assert ends_of(instance, copies=1).tolist() == pytest.approx([310.0, 360.0 + 10.0 + 255.0])


def test_orders_of_jobs_with_single_copies() -> None:
    instance = nodes_and_jobs([2_000.0, 1_000.0, 3_000.0], np.full((3, 1), 10.0))
    for order, first in (("longest", 2), ("shortest", 1), ("arrival", 0)):
        assert int(np.argmin(ends_of(instance, copies=1, order=order))) == first


def test_copies_of_the_first_job_may_go_before_other_jobs() -> None:
    """Two nodes of 10 steps a second: with ``forked`` the first job has both for 165 s, then the second job."""
    instance = nodes_and_jobs([3_000.0, 3_000.0], np.full((2, 2), 10.0))
    assert ends_of(instance).tolist() == [310.0, 310.0]
    assert ends_of(instance, order="forked").tolist() == [165.0, 525.0]
    assert ends_of(instance, order="forked", refill=True).tolist() == [165.0, 330.0]


def test_gangs_have_a_copy_on_each_node() -> None:
    """Nodes of four GPUs: gangs of three leave one GPU idle; the rates of the copies add up."""
    instance = nodes_and_jobs([1_850.0], SPEEDS[None, :], size=4, gang=3)
    assert ends_of(instance)[0] == pytest.approx(115.0)


def test_later_jobs_wait_for_the_next_slot_unless_the_cluster_is_empty() -> None:
    rates = np.full((3, 1), 10.0)
    instance = nodes_and_jobs([1_000.0, 1_000.0, 1_000.0], rates, arrival_s=[0.0, 50.0, 1_000.0])
    assert ends_of(instance).tolist() == [110.0, 470.0, 1_110.0]


def test_refusals() -> None:
    instance = nodes_and_jobs([10.0], SPEEDS[None, :])
    with pytest.raises(SchedulerError, match="stopping, restoring and merging takes 15 s"):
        play(instance, HadarE(slot_s=15.0))
    with pytest.raises(SchedulerError, match="no node runs job 0, a gang of 2 GPUs"):
        play(nodes_and_jobs([10.0], SPEEDS[None, :], gang=2), HadarE())
    for parameters, text in (
        ({"order": "latest"}, "unknown order"), ({"spare_order": "x"}, "unknown spare_order"),
        ({"slot_s": 0.0}, "slot_s is 0"), ({"copies": -1}, "copies is -1"), ({"sticky": True}, "give copies=1"),
    ):  # fmt: skip
        with pytest.raises(SchedulerError, match=text):
            HadarE(**parameters)  # type: ignore[arg-type]
