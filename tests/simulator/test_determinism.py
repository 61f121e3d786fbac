"""Equal results alone or in a batch, with any seed or buffer. The battery of portability plays plain Python too."""

from __future__ import annotations

import pytest
from helpers import random_instance, two_types, unit_instance

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.core.state import allocate
from gpusched_env.simulator import Simulation, simulate


@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_a_place_in_a_batch_changes_nothing(name: str) -> None:
    """Instances of different sizes, played in turns, in arrays that are longer than each one needs."""
    instances = [
        random_instance(1, 20),
        random_instance(2, 45, two_types((3, 2), (4, 4), 2)),
        unit_instance([0, 0, 1], [1, 2, 3], [5, 4, 3], "1x3"),
    ]
    state = allocate(instances, [0, 1, 2])
    for b in (2, 0, 1):
        simulation = Simulation(instances[b], arrays=state.handle(b))
        simulation.run(make_scheduler(name))
        assert simulation.log().digest() == simulate(instances[b], make_scheduler(name), seed=b).digest()


def test_steps_of_different_environments_may_alternate() -> None:
    instances = [random_instance(seed, 30) for seed in (1, 2)]
    state = allocate(instances)
    simulations = [Simulation(instance, arrays=state.handle(b)) for b, instance in enumerate(instances)]
    scheduler, busy = make_scheduler("srtf"), [0, 1]
    views = [simulation.view_for(scheduler) for simulation in simulations]
    scheduler.reset(views[0])
    while busy:
        for b in tuple(busy):
            if simulations[b].advance().name == "DECIDE":
                for decision in scheduler.decide(views[b]):
                    simulations[b].apply(decision)
            else:
                busy.remove(b)
    for simulation, instance in zip(simulations, instances, strict=True):
        assert simulation.log().digest() == simulate(instance, make_scheduler("srtf")).digest()


def test_the_seed_of_a_run_decides_random_placement_and_nothing_else() -> None:
    instance = random_instance(5, 40)
    for spec, differs in (("fifo:placement=random", True), ("fifo", False), ("srtf", False)):
        one, same, other = (simulate(instance, make_scheduler(spec), seed=s).digest() for s in (1, 1, 2))
        assert one == same
        assert (one != other) == differs, spec


def test_reading_the_log_changes_nothing() -> None:
    instance = random_instance(6, 200)
    whole = simulate(instance, make_scheduler("fifo")).digest()
    simulation, scheduler = Simulation(instance), make_scheduler("fifo")
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    while simulation.advance().name == "DECIDE":
        simulation.log()
        for decision in scheduler.decide(view):
            simulation.apply(decision)
            simulation.log()
    assert simulation.log().digest() == whole


@pytest.mark.parametrize("size", range(60, 70))
def test_the_size_of_the_log_buffer_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size fills the buffer at another event; no decision point may be lost there."""
    instance = random_instance(6, 100)
    whole = simulate(instance, make_scheduler("fifo-skip")).digest()
    monkeypatch.setattr("gpusched_env.core.state.EVENT_BUFFER", size)
    assert simulate(instance, make_scheduler("fifo-skip")).digest() == whole
