"""Random play with failures: sizes, copies, shared GPUs, links, slots, steps, restarts, rounds, maintenance."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers import check_counts, plain_python_digests
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpusched_env.core.state import ACTIVE, allocate
from gpusched_env.event_log import ARRIVAL, COMPLETE, FAIL, PREEMPT, RATE, RESIZE, RESUME, EventLog
from gpusched_env.event_log import START as BEGIN
from gpusched_env.metrics import validate
from gpusched_env.metrics.segments import segments
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.problem.partitions import Partitions, Reservation
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import ClusterView, Outcome, Preempt, Simulation, Start
from gpusched_env.simulator.past import first_difference
from tests.simulator import test_elastic, test_invariants, test_sharing

TICK_S = 25.0  # most times are multiples of it, so that events of all kinds coincide
ENDED = (Outcome.DONE, Outcome.TIME_LIMIT)


def draw_rules(rng: np.random.Generator, plain: Instance) -> dict[str, Any]:
    """Rules of play with costs of failures."""

    def time_s(*ticks: int) -> float:
        return TICK_S * float(rng.choice(ticks))

    rules: dict[str, Any] = dict(
        checkpoint_interval_s=time_s(1, 4, 10**6), checkpoint_cost_s=time_s(0, 1), detection_s=time_s(0, 0, 1, 3),
        recovery_s=time_s(0, 2), round_s=time_s(0, 0, 2), checkpoint_s=time_s(0, 1, 2), restore_s=time_s(0, 1),
        time_limit_s=time_s(24, 10**6),
    )  # fmt: skip
    if rng.random() < 0.6:
        rules |= dict(slot_s=TICK_S * 2) if rng.random() < 0.5 else dict(step_iterations=7)
    if plain.sharing is None and plain.network.topology is None:  # topologies price no copies
        rules |= dict(max_copies=2, merge_s=5.0)
    if plain.sharing is None and rng.random() < 0.2:
        rules |= dict(restart_all_s=TICK_S, checkpoint_s=0.0)
    return rules


def draw_outages(rng: np.random.Generator, nodes: int) -> Outages:
    """Outages of random nodes, some of which end at once, and one of the whole cluster."""
    rows = np.zeros(int(rng.integers(1, 40)), OUTAGE_DTYPE)
    rows["node"], rows["start_s"] = rng.integers(0, nodes, len(rows)), TICK_S * rng.integers(0, 40, len(rows))
    rows["end_s"] = rows["start_s"] + TICK_S * rng.integers(0, 6, len(rows))
    whole = rows[:1].repeat(nodes)
    whole["node"] = np.arange(nodes)
    return Outages.merged(np.concatenate([rows, whole]))


def draw_failing(rng: np.random.Generator) -> tuple[Instance, Callable[..., Any]]:
    """A random instance with failures, and the function that draws decisions for it."""
    module = (test_elastic, test_sharing, test_invariants)[rng.integers(3)]
    plain = module.draw_elastic(rng) if module is test_elastic else module.draw_instance(rng)
    jobs, nodes = plain.workload.jobs.copy(), len(plain.cluster.nodes)
    jobs["arrival_s"] = np.floor(jobs["arrival_s"] / TICK_S) * TICK_S
    fails = {
        "fails_after_s": rng.choice(["", "", "", "25|75", "60"], len(jobs)),
        "attempts": rng.integers(0, 3, len(jobs)),
    }
    workload: Workload = dataclasses.replace(plain.workload, jobs=jobs, attributes=fails)
    begin_s = TICK_S * rng.integers(0, 40, rng.integers(1, 3))
    closed = [
        Reservation(f"{i}", at, at + 150.0, nodes=f"{rng.integers(nodes)}", drain=at > 500.0)
        for i, at in enumerate(begin_s)
    ]
    instance = Instance(
        plain.cluster, workload, plain.network,
        dataclasses.replace(plain.semantics, **draw_rules(rng, plain)), plain.sharing,
        partitions=None if module is test_elastic else Partitions(reservations=tuple(closed)),
        outages=draw_outages(rng, nodes),
    )  # fmt: skip
    if plain.sharing_tables is not None:
        test_sharing.with_tables(instance, **plain.sharing_tables._asdict())
    return instance, module.draw_sized if module is test_elastic else module.draw_decision


def decide(simulation: Simulation, draw: Callable[..., Any], rng: np.random.Generator) -> Any:
    """A random decision; more preemptions and copies than others draw."""
    view, kind = ClusterView(simulation), rng.random()
    if kind < 0.1 and len(view.running):
        return Preempt(int(rng.choice(view.running)))
    if kind < 0.3 and len(view.waiting) and simulation.instance.semantics.max_copies > 1:
        job, free = int(rng.choice(view.waiting)), np.flatnonzero(view.is_free)
        return Start(job, gpus=tuple(free[: 2 * int(view.gpus[job])].tolist()))
    return draw(rng, simulation)


def go_on(simulation: Simulation, draw: Callable[..., Any], rng: np.random.Generator, points: int) -> Outcome:
    """Play random decisions; no gang may run on a node that is down."""
    outcome = Outcome.DECIDE
    for _ in range(points):
        outcome = simulation.advance()
        check_counts(simulation)
        state, node_of_gpu = simulation.arrays, simulation.instance.cluster.node_of_gpu
        held = state.holder[: len(node_of_gpu) * simulation.instance.gpu_jobs].reshape(-1, len(node_of_gpu))
        held = held[:, state.down[node_of_gpu] > 0]
        assert (state.replicas["phase"][held[held >= 0]] != ACTIVE).all()
        if outcome is not Outcome.DECIDE:
            break
        for _ in range(int(rng.integers(0, 6))):
            simulation.apply(decide(simulation, draw, rng))
    return outcome


def check_work(instance: Instance, log: EventLog) -> None:
    """Follow the work of each job through its log; a failure returns it to the last checkpoint, to 1e-8 of an event."""
    table = segments(instance, log)
    pace_at = dict(zip(table["start_event"].tolist(), table["iteration_s"].tolist(), strict=True))
    least = 0.0 if instance.semantics.slot_s else -np.inf  # gangs run on to the ends of their slots
    assert instance.recovery is not None
    for job, segment_s in enumerate(instance.recovery.segment_s.tolist()):
        left = total = float(instance.iterations[job])
        parts: list[tuple[float, float]] = []  # time from which the gang has a pace; [s] an iteration
        stop_s = 0.0

        def work_until(end_s: float, parts: list[tuple[float, float]] = parts) -> float:
            ends = [begin for begin, _ in parts[1:]] + [np.inf]
            return sum(max(min(end, end_s) - at, 0.0) / pace for (at, pace), end in zip(parts, ends, strict=True))

        for number in np.flatnonzero(log.events["job"] == job).tolist():
            event = log.events[number]
            kind, time_s, value = int(event["kind"]), float(event["time_s"]), float(event["value"])
            if kind in (BEGIN, RESUME):
                parts[:] = [(value, pace_at[number])]
                before, stop_s = left, 0.0
            elif kind == RATE:
                begin_s = max(time_s, parts[0][0])
                parts[:] = [(begin_s, value)] if begin_s == parts[0][0] else [*parts, (begin_s, value)]
            elif kind in (PREEMPT, RESIZE, COMPLETE):
                left, stop_s = max(before - work_until(time_s), least), time_s
                assert abs(left - value) <= 1e-8 * total, (job, number)
                left = value
            elif kind == FAIL:
                run_s = max((stop_s or time_s) - parts[0][0], 0.0)
                counts = {np.floor(run_s / segment_s * (1 + step)) for step in (-1e-12, 1e-12)}
                saved = [before - work_until(parts[0][0] + count * segment_s if count else 0.0) for count in counts]
                assert min(abs(max(one, least) - value) for one in saved) <= 1e-8 * total, (job, number)
                left = value


def run(seed: int) -> tuple[Instance, Simulation, Outcome]:
    """Play a seed alone, in a batch, and from a copy; check the log, and make its decisions again."""
    rng = np.random.default_rng(seed)
    instance, draw = draw_failing(rng)
    other = draw_failing(np.random.default_rng(seed + 1))[0]
    played = [Simulation(instance, seed), Simulation(instance, arrays=allocate([other, instance], [0, seed]).handle(1))]
    dice = [rng, copy.deepcopy(rng)]
    outcome = [go_on(one, draw, own, 20) for one, own in zip(played, dice, strict=True)].pop()
    if outcome is Outcome.DECIDE:
        played, dice = [*played, copy.deepcopy(played[0])], [*dice, copy.deepcopy(rng)]
        outcome = [go_on(one, draw, own, 100) for one, own in zip(played, dice, strict=True)].pop()
    alone, log = played[0], played[0].log()
    assert {one.log().digest() for one in played} == {log.digest()}
    validate(instance, log, complete=outcome in ENDED)
    check_work(instance, log)
    assert first_difference(instance, log, outcome in ENDED) is None
    return instance, alone, outcome


def facts(instance: Instance, simulation: Simulation, outcome: Outcome) -> set[str]:
    """What has happened to gangs that failed in a run."""
    log, rules = simulation.log(), instance.semantics
    assert instance.outages is not None
    events, rows = log.events, instance.outages.rows
    fails = events[events["kind"] == FAIL]
    if not len(fails):
        return set()
    crash_s = fails["time_s"][np.isin(fails["time_s"], rows["start_s"])]
    starts_s, counts = np.unique(rows["start_s"], return_counts=True)
    when = {
        "at once": rows["start_s"][rows["end_s"] == rows["start_s"]],
        "whole cluster": starts_s[counts == len(instance.cluster.nodes)],
        "arrival": events["time_s"][events["kind"] == ARRIVAL],
        "completion": events["time_s"][events["kind"] == COMPLETE],
    }
    found = {name for name, times_s in when.items() if np.isin(crash_s, times_s).any()}
    found |= {name for name in ("slot_s", "step_iterations", "round_s", "restart_all_s") if getattr(rules, name)}
    found |= {name for name, holds in (
        ("links", instance.network.contention.model != "none"),
        ("by itself", len(crash_s) < len(fails)),
        ("gives up", (events["value"][events["kind"] == COMPLETE] > 0).any()),
        ("cut in an outage", outcome is Outcome.TIME_LIMIT and simulation.arrays.down.any()),
    ) if holds}  # fmt: skip
    for one in () if instance.partitions is None else instance.partitions.reservations:
        found |= {"reserved"} if ((one.start_s <= crash_s) & (crash_s < one.end_s)).any() else set()
    held: dict[int, set[int]] = {}  # job -> GPUs of its last gang
    before: dict[int, int] = {}  # job -> kind of its last event
    crashed: dict[float, list[set[int]]] = {}
    for number, event in enumerate(events):
        job, kind, asked = int(event["job"]), int(event["kind"]), instance.workload.jobs["gpus"][event["job"]]
        if event["gpu_count"]:
            held[job] = set(log.gang(number).tolist())
        if kind == FAIL:
            beside = crashed.setdefault(float(event["time_s"]), [])
            found |= {"co-located"} if any(held[job] & other for other in beside) else set()
            found |= {"in a checkpoint"} if before[job] == PREEMPT else set()
            beside.append(held[job])
            if len(held[job]) != asked:
                found |= {"copies" if instance.sizes.count[job] == 1 else "resized"}
        before[job] = kind
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
@example(307)  # the log is cut long before the time limit, and an attempt runs on
def test_random_play_conserves_work_and_is_the_same_in_a_batch_from_a_copy_and_again(seed: int) -> None:
    run(seed)


def test_random_play_meets_all_that_failures_coincide_with() -> None:
    found: set[str] = set()
    for seed in range(60):
        found |= facts(*run(seed))
    assert found == {
        "slot_s", "step_iterations", "round_s", "restart_all_s", "links", "copies", "resized", "co-located", "reserved",
        "by itself", "gives up", "at once", "whole cluster", "arrival", "completion", "in a checkpoint",
        "cut in an outage",
    }  # fmt: skip


def digests() -> list[str]:
    """Digests of random play, also in plain Python."""
    return [run(seed)[1].log().digest() for seed in range(12)]


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.simulator.test_outages") == digests()
