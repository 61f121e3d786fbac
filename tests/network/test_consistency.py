"""Equal results under contention: with or without questions, from scratch, in a batch, in a copy, compiled or not."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import Script, plain_python_digests, small_scenario
from network_play import AtOnce, gpus_of, instance_of, network, paces, started
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.core.events import stuck
from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import model_number
from gpusched_env.core.network.flows import list_flow, touch_link
from gpusched_env.core.queries import settle_now
from gpusched_env.core.state import Run, allocate
from gpusched_env.errors import GpuschedError, ScheduleError
from gpusched_env.event_log import COMPLETE, RATE, START, EventLog
from gpusched_env.metrics import validate
from gpusched_env.network import NETWORK_PRESETS, Contention
from gpusched_env.problem.instance import Semantics
from gpusched_env.simulator import (
    ClusterView,
    Decision,
    Preempt,
    Simulation,
    Start,
    Wait,
    simulate,
)
from tests.network.test_replay import Restless, draw

SEEDS = range(0, 24, 2)
MAXMIN, SOLO = model_number("maxmin"), model_number("none")
TWO = [{0: 4, 1: 4}, {0: 4, 1: 4}]


@kernel
def settle_from_scratch(sim: Run) -> None:
    """Discard all rates and levels and solve again."""
    for link in range(len(sim.links)):
        sim.links[link]["level"] = np.inf
        touch_link(sim, link)
    for i in range(sim.world["running"]):
        number = sim.running[i]
        if sim.replicas[number]["first_use"] >= 0 and sim.world["contention"] != SOLO:
            sim.replicas[number]["settled_s"] = 0.0
            if sim.world["contention"] == MAXMIN:
                sim.replicas[number]["priced_Bps"] = 0.0
            list_flow(sim, number)
    settle_now(sim)


def chain(uses: np.ndarray, use: int, following: str) -> list[tuple[float, ...]]:
    """The linked list of a link or gang, in order."""
    found = []
    while use >= 0:
        found.append(tuple(uses[name][use].item() for name in ("weight", "rate", "link", "replica")))
        use = int(uses[following][use])
    return found


def told(simulation: Simulation) -> list[bytes]:
    """All that a question must not change: the state without scratch, and the order of flows on each link."""
    state = simulation.arrays
    simulation.view_for(AtOnce([])).network.loads_Bps()  # settles
    world = state.world.copy()
    running = state.running[: world["running"]]
    links = [state.links[name] for name in ("total", "level", "first_use", "flows", "can_fill", "is_changed")]
    chains = [
        chain(state.uses, first, following)
        for heads, following in (
            (state.links["first_use"], "next_of_link"),
            (state.replicas["first_use"][running], "next_of_replica"),
        )
        for first in heads.tolist()
    ]
    replicas = state.replicas[running].copy()
    replicas["listed"] = 0
    arrays = [
        world, state.jobs, replicas, state.nodes, state.holder, state.free, state.waiting,
        state.running, *links,
    ]  # fmt: skip
    return [*(array.tobytes() for array in arrays), repr(chains).encode()]


class Curious(Restless):
    """Ask all questions before every decision and check the answers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.other = np.random.default_rng(seed)
        self.asked = self.checked = 0

    def ask(self, view: ClusterView) -> None:
        if not len(view.waiting):
            return
        job = int(self.other.choice(view.waiting))
        free = np.flatnonzero(view._arrays.holder[: view.cluster.gpus] < 0)
        gang = int(view.gpus[job])
        if len(free) >= gang:
            gpus = self.other.permutation(free)[:gang].tolist()
            before = told(view._simulation)
            first = view.network.what_if_s(job, gpus)
            assert told(view._simulation) == before
            assert view.network.what_if_s(job, gpus) == first
            self.asked += 1

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for decision in super().decide(view):
            self.ask(view)
            yield decision
            if isinstance(decision, Start) and not view.refusal:
                self.check_scratch(view)
        self.ask(view)

    def check_scratch(self, view: ClusterView) -> None:
        simulation = view._simulation
        before = told(simulation)
        settle_from_scratch(simulation.arrays)
        assert told(simulation) == before
        self.checked += 1


@pytest.mark.parametrize("seed", SEEDS)
def test_questions_and_solving_from_scratch_change_no_bit(seed: int, tmp_path: Path) -> None:
    instance = draw(seed, tmp_path)
    plain = simulate(instance, Restless(seed), seed=seed).digest()
    assert simulate(instance, Restless(seed), seed=seed).digest() == plain
    curious = Curious(seed)
    assert simulate(instance, curious, seed=seed).digest() == plain
    assert curious.asked > 10
    assert curious.checked > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_what_if_predicts_the_rates_after_a_start(seed: int, tmp_path: Path) -> None:
    instance = draw(seed, tmp_path)
    rng = np.random.default_rng(seed)
    compared = 0

    class Sure(Restless):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            nonlocal compared
            for decision in super().decide(view):
                if not isinstance(decision, Start) or self.decisions > 100:
                    yield decision
                    continue
                gang = int(view.gpus[decision.job])
                free = np.flatnonzero(view._arrays.holder[: view.cluster.gpus] < 0)
                if len(free) >= gang:
                    gpus = tuple(rng.permutation(free)[:gang].tolist())
                    expected = view.network.what_if_s(decision.job, gpus)
                    yield Start(decision.job, gpus=gpus)
                    assert not view.refusal
                    assert view.network.iteration_s(np.array([decision.job]))[0] == expected
                    compared += 1

    simulate(instance, Sure(seed), seed=seed)
    assert compared > 10


def test_a_question_after_a_preemption_does_not_hide_the_new_rates() -> None:
    """After a preemption rivals are faster: that is logged even if a question has already computed their rates."""
    instance, _ = instance_of("2x12", [*TWO, {0: 4, 1: 4}], network(), checkpoint_s=500.0)
    places = gpus_of(instance.cluster, [*TWO, {0: 4, 1: 4}])
    alone = paces("2x12", TWO[:1], network())[0]

    class Asks(Script):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            yield from super().decide(view)
            if view.now_s == 10.0:
                view.network.what_if_s(2, places[2])
            if view.now_s > 10.0:
                yield from (Start(job) for job in view.waiting.tolist())

    script = {0.0: [Start(0, gpus=places[0]), Start(1, gpus=places[1]), Wait(10.0)], 10.0: [Preempt(0)]}
    log = simulate(instance, Asks(script))
    validate(instance, log)
    rates = log.events[(log.events["kind"] == RATE) & (log.events["time_s"] == 10.0)]
    assert rates["job"].tolist() == [1]
    assert rates["value"].tolist() == [alone]


def test_removing_the_other_gangs_gives_the_time_alone() -> None:
    gangs = [{0: 4, 1: 4}, {0: 2, 2: 2}, {1: 2, 3: 2}, {2: 3, 3: 3}]
    instance, scheduler = instance_of("4x8", gangs, network(kind="leaf-spine"), checkpoint_s=0.0)
    simulation = started(instance, scheduler)
    view = simulation.view_for(scheduler)
    together = view.network.iteration_s(np.arange(4))
    simulation.wake_at(10.0)
    simulation.advance()
    for job in (1, 2, 3):
        assert simulation.apply(Preempt(job)) == ""
    assert view.network.iteration_s(np.array([0]))[0] < together[0]
    assert view.network.iteration_s(np.array([0]))[0] == paces("4x8", gangs[:1], network(kind="leaf-spine"))[0]
    assert view.network.slowdown(np.array([0])).tolist() == [1.0]
    assert view.network.bottleneck(np.array([0])).tolist() == [-1]


@pytest.mark.parametrize("model", ["none", "maxmin", "kway", "flat"])
def test_a_gang_alone_takes_the_time_of_the_table_of_iterations(model: str) -> None:
    measured = dict(latency="measured", gpu_depth_s=1e-5, nic_depth_s=1e-4)
    for collective, links in (
        *((name, {}) for name in ("ring", "hierarchical", "double-tree", "best", "nccl-tree", "nccl")),
        *((name, dict(switch_share=0.85) | measured) for name in ("nccl-tree", "nvls", "nccl")),
    ):
        fields: dict[str, Any] = dict(collective=collective, reduction_GBps=50.0, machine_overhead_s=1e-3) | links
        net = network(model, kind="leaf-spine", **fields)
        for gang, tier in (({0: 1}, 0), ({0: 4}, 0), ({0: 4, 1: 4}, 1), ({0: 4, 2: 4}, 2)):
            instance, scheduler = instance_of("4x4/2", [gang], net)
            simulation = started(instance, scheduler)
            found = simulation.view_for(scheduler).network.iteration_s(np.array([0]))[0]
            assert found == pytest.approx(instance.iteration_s[0, tier, 0], rel=1e-12)


# --- batches, copies, buffers, environments, plain Python


def test_a_place_in_a_batch_changes_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / str(seed) for seed in range(6)]
    for folder in folders:
        folder.mkdir()
    instances = [draw(seed, folder) for seed, folder in enumerate(folders)]
    state = allocate(instances, list(range(6)))
    for b in (3, 0, 5, 1, 4, 2):
        simulation = Simulation(instances[b], arrays=state.handle(b))
        simulation.run(Restless(b))
        assert simulation.log().digest() == simulate(instances[b], Restless(b), seed=b).digest()


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_continues_like_the_original(seed: int, tmp_path: Path) -> None:
    instance = draw(seed, tmp_path)
    simulation, scheduler = Simulation(instance, seed), Restless(seed)
    view = simulation.view_for(scheduler)
    for _ in range(20):
        if simulation.advance().name != "DECIDE":
            break
        for decision in scheduler.decide(view):
            simulation.apply(decision)
    twin, its = copy.deepcopy(simulation), copy.deepcopy(scheduler)
    simulation.run(scheduler)
    twin.run(its)
    assert twin.log().digest() == simulation.log().digest()


@pytest.mark.parametrize("size", range(60, 66))
def test_the_size_of_the_log_buffer_changes_nothing(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size fills the buffer at another event, also before rates are logged, which must fit at once."""
    instance = draw(0, tmp_path)
    whole = simulate(instance, Restless(0)).digest()
    shrunk = size - 8 * instance.cluster.gpus  # allocate adds room for the rates of all gangs
    monkeypatch.setattr("gpusched_env.core.state.EVENT_BUFFER", shrunk)
    simulation = Simulation(instance)
    assert len(simulation.arrays.events) == size
    simulation.run(Restless(0))
    assert simulation.log().digest() == whole


@pytest.mark.parametrize(
    ("contention_model", "rules"),
    [
        (Contention("maxmin", ecmp="hashed"), Semantics()),
        (Contention("maxmin", duty="solo"), Semantics(round_s=300.0)),
        (Contention("kway"), Semantics(time_limit_s=200_000.0)),
        (Contention("maxmin"), Semantics()),
    ],
)
@pytest.mark.parametrize("name", ["fifo:placement=spread", "las:placement=spread", "srtf:placement=random"])
def test_the_environment_plays_alike(contention_model: Contention, rules: Semantics, name: str) -> None:
    net = network(contention_model, kind="leaf-spine", oversubscription=4.0, uplinks=2, nic_GBps=0.5)
    if (contention_model, rules) == (Contention("maxmin"), Semantics()):
        spec = NETWORK_PRESETS["p5-efa"].topology
        net = replace(net, topology=replace(spec, oversubscription=4.0, nic_GBps=0.5, nics=1), collective="nccl")
    scenario, seed = small_scenario(40, network=net, semantics=rules), 200_000
    placement = {name.partition("placement=")[2] or "pack", "pack"}
    through = play_scheduler(wide_open(scenario, seed, rules=tuple(placement)), make_scheduler(name), seed)
    instance = scenario.instance(seed)
    direct = simulate(instance, make_scheduler(name), seed=seed)
    validate(instance, through)
    assert (direct.events["kind"] == RATE).sum() > (direct.events["kind"] == START).sum()
    assert through.digest() == direct.digest()


def digests() -> list[str]:
    """Logs of six random networks of several models."""
    found = []
    for seed in (0, 3, 5, 8, 13, 22):
        with tempfile.TemporaryDirectory() as folder:
            instance = draw(seed, Path(folder), jobs=12)
            found.append(simulate(instance, Restless(seed)).digest())
    return found


def test_compiled_and_plain_python_give_the_same_logs() -> None:
    assert plain_python_digests("tests.network.test_consistency") == digests()


# --- the validator on rates


def tampered(log: EventLog, at: int, **fields: object) -> EventLog:
    events = log.events.copy()
    for name, value in fields.items():
        events[name][at] = value
    return EventLog(events, log.gpus)


def test_tampered_rates_are_refused() -> None:
    instance, scheduler = instance_of("2x8", TWO, network(), iterations=[1000, 3000])
    log = simulate(instance, scheduler)
    validate(instance, log)
    rates = np.flatnonzero(log.events["kind"] == RATE)
    assert len(rates) == 3
    first, last = int(rates[0]), int(rates[2])
    value = float(log.events["value"][first])
    cases = [
        (tampered(log, last, value=value * 1.01), "iterations are not conserved"),
        (tampered(log, first, value=value * (1 - 1e-6)), "iterations are not conserved"),
        (tampered(log, first, value=0.0), "an iteration must take time"),
        (tampered(log, first, value=np.inf), "not a finite number"),
        (tampered(log, first, value=np.nan), "not a finite number"),
        (tampered(log, first, gpu_at=2), "no such link"),
        (tampered(log, first, gpu_at=-2), "no such link"),
        (tampered(log, first, gpu_count=1), "gpu_count must be 0"),
        (tampered(log, first, replica=3), "its replica is not the one"),
        (tampered(log, last, time_s=float(log.events["time_s"][last]) + 1.0), "iterations are not conserved"),
        (tampered(log, last, job=0), "has finished"),
        (EventLog(np.delete(log.events, last), log.gpus), "iterations are not conserved"),
        (EventLog(np.delete(log.events, first), log.gpus), "no rate"),
        (EventLog(np.insert(log.events, 0, log.events[first]), log.gpus), "has not arrived"),
    ]
    for bad, complaint in cases:
        with pytest.raises(ScheduleError) as error:
            validate(instance, bad)
        assert complaint in str(error.value)


def test_rates_need_links() -> None:
    instance, scheduler = instance_of("2x8", TWO, network())
    log = simulate(instance, scheduler)
    plain, _ = instance_of("2x8", TWO, network("none"))
    plain.topology = None
    with pytest.raises(ScheduleError, match="rates follow from the placement"):
        validate(plain, log)


@pytest.mark.parametrize(("second_s", "stands"), [(0.0, True), (1.0, False)])
def test_gangs_that_make_no_progress_are_stuck(second_s: float, stands: bool) -> None:
    """Two gangs contend for links until no whole iteration fits into a slot, or the second has not arrived yet."""
    net = network(gpu_latency_s=0.0, nic_latency_s=0.0)
    instance, scheduler = instance_of("2x8", TWO, net, slot_s=0.07, arrival=[0.0, second_s])
    simulation = started(instance, scheduler)
    simulation.advance()
    assert stuck(simulation.arrays) == stands


def test_gangs_stalled_for_ever_are_an_error() -> None:
    """No whole iteration of either gang fits into a slot: the error says so, instead of saying that no gang runs."""
    net = network(gpu_latency_s=0.0, nic_latency_s=0.0)
    instance, scheduler = instance_of("2x8", TWO, net, slot_s=0.07)
    with pytest.raises(GpuschedError, match=r"stalls at 0 s: 2 jobs run, but none gets a whole iteration into a slot"):
        simulate(instance, scheduler)
    later, scheduler = instance_of("2x8", TWO, net, slot_s=0.07, arrival=[0, 0.7], time_limit_s=7.0)
    log = simulate(later, scheduler)
    validate(later, log)
    assert np.isinf(log.events["value"]).sum() == 2
    assert (log.events["kind"] == COMPLETE).sum() == 0
