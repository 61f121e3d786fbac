"""Rates by the shape of a placement: dimensions, shapes that a cluster offers, and rates in the simulator."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers import FREE_PREEMPTION
from hypothesis import given, settings
from hypothesis import strategies as st
from network_play import AtOnce

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError, WorkloadError
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Contention, Network
from gpusched_env.network.dimensions import dimensions, reachable_shapes
from gpusched_env.problem.cluster import NETWORK, OUTWARDS, Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import SHAPED_DTYPE, Profiles, Workload
from gpusched_env.simulator import Outcome, Simulation, simulate

BY_SHAPE = Network("dimensions")
ROOMS = ("4x4s2/2", "2x4/1", "1x4s2/1@A,1x2/1@B,2x3s3@A")
SIZES = (1, 2, 3, 4, 5, 6, 8)


@pytest.mark.parametrize(
    ("gang", "used", "shape"),
    [  # docs/network.md, By the shape of a placement: racks, machines, slots -> gpu, slot, machine, rack
        (8, (1, 2, 2), (2, 2, 2, 1)),  # 4+4 in a rack
        (16, (1, 2, 4), (2, 4, 2, 1)),  # 8+8 in a rack
        (16, (2, 2, 4), (1, 4, 2, 2)),  # 8+8 over racks
        (8, (1, 2, 3), (1, 4, 2, 1)),  # slots of 3 | 4+1 in a rack
        (8, (1, 3, 3), (1, 1, 8, 1)),  # over three machines
        (2, (2, 2, 2), (1, 1, 1, 2)),  # 1+1 over racks
        (32, (1, 4, 8), (1, 8, 4, 1)),  # 4 x 8 in a rack
        (4, (1, 1, 2), (2, 2, 1, 1)),  # 2+2 in two slots of a machine
        (4, (1, 1, 1), (4, 1, 1, 1)),
        (8, (2, 2, 2), (1, 2, 2, 2)),  # 4+4 over racks
        (7, (2, 3, 4), (1, 1, 1, 7)),  # where the number does not divide the gang, the dimension takes all that is left
        (1, (1, 1, 1), (1, 1, 1, 1)),
    ],
)
def test_dimensions_of_placements_by_hand(gang: int, used: tuple[int, int, int], shape: tuple[int, ...]) -> None:
    assert dimensions(gang, *used) == shape


@given(parts=st.lists(st.integers(1, 64), min_size=4, max_size=4).map(lambda parts: sorted(parts, reverse=True)))
def test_the_product_of_the_dimensions_is_the_gang(parts: list[int]) -> None:
    gang, slots, machines, racks = parts
    assert math.prod(dimensions(gang, racks, machines, slots)) == gang


@pytest.mark.parametrize("room", ["2x4s2/1", "1x4s2/1,1x2/1", "2x2s2,1x3,1x2s2", "3x3s3/2", "4x2/2"])
def test_reachable_shapes_are_those_of_all_sets_of_gpus(room: str) -> None:
    cluster = Cluster.parse(room)
    for gang in range(1, cluster.gpus + 1):
        expected: dict[tuple[int, ...], set[int]] = {}
        for gpus in itertools.combinations(range(cluster.gpus), gang):
            ids, first = np.array(gpus), np.array([0])
            shape = dimensions(gang, *cluster.used_parts(ids, first)[:, 0].tolist())
            expected.setdefault(shape, set()).add(int(cluster.tier_of(ids, first)[0]))
        assert reachable_shapes(cluster, gang) == {shape: tuple(sorted(tiers)) for shape, tiers in expected.items()}


def priced(cluster: Cluster, efficiency: dict[tuple[int, ...], float] | None = None, seed: int = 0) -> Profiles:
    """Two models with different compute times on each GPU type, and random efficiencies for every reachable shape."""
    rng = np.random.default_rng(seed)
    fields = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
    rows = [dict(name=name, compute_s=rng.uniform(0.5, 2, len(cluster.gpu_types)), **fields) for name in "ab"]
    plain = Profiles.from_rows(rows, cluster.gpu_types)
    shaped = [
        (row, *shape, (efficiency or {}).get(shape, rng.uniform(0.05, 1.0)))
        for row in range(2)
        for gang in range(2, min(cluster.gpus, 8) + 1)
        for shape in reachable_shapes(cluster, gang)
    ]
    order = rng.permutation(len(shaped))
    table = np.array(shaped, SHAPED_DTYPE)[order]
    return Profiles(plain.rows, plain.compute_s, plain.gpu_types, shaped=table)


def jobs_on(cluster: Cluster, sizes: list[int], profiles: Profiles, **rules: float) -> Instance:
    workload = Workload.from_columns(
        [0.0] * len(sizes), sizes, iterations=[100.0] * len(sizes), profiles=profiles, profile=np.arange(len(sizes)) % 2
    )
    return Instance(cluster, workload, BY_SHAPE, Semantics(**(FREE_PREEMPTION | rules)))


@settings(max_examples=60)
@given(data=st.data(), room=st.sampled_from(ROOMS))
def test_a_gang_pays_for_the_shape_of_its_placement(data: st.DataObject, room: str) -> None:
    """On random GPUs in random order: iterations x compute of the slowest type / efficiency of the shape."""
    cluster = Cluster.parse(room)
    profiles = priced(cluster)
    order = data.draw(st.permutations(range(cluster.gpus)))
    sizes = data.draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=4))
    ends = [*itertools.accumulate(sizes, initial=0)]
    places = [tuple(order[a:b]) for a, b in itertools.pairwise(ends) if b <= cluster.gpus]
    if not places:
        places = [(order[0],)]
    instance = jobs_on(cluster, [len(place) for place in places], profiles)
    log = simulate(instance, AtOnce(places))
    validate(instance, log)
    told = {tuple(row[:-1]): row[-1] for row in profiles.shaped.tolist()}
    for job, place in enumerate(places):
        ids = np.array(place)
        shape = dimensions(len(place), *cluster.used_parts(ids, np.array([0]))[:, 0].tolist())
        share = told[(job % 2, *shape)] if len(place) > 1 else 1.0
        compute = profiles.compute_s[job % 2][cluster.nodes["gpu_type"][cluster.node_of_gpu[ids]]].max()
        row = int(np.flatnonzero(instance.workload.jobs["id"] == job)[0])
        times = job_times(instance, log)[row]
        assert times["finish_s"] == pytest.approx(100.0 * compute / share, rel=1e-12)
        assert times["communication_s"] == pytest.approx(100.0 * compute * (1 / share - 1), rel=1e-9, abs=1e-9)
        assert times["finish_s"] >= instance.ideal_s[row] * (1 - 1e-12)


@pytest.mark.parametrize("room", ROOMS[:2])
def test_the_ideal_is_the_best_of_all_placements(room: str) -> None:
    """One GPU type: the ideal time is that of the best set of GPUs, by brute force."""
    cluster = Cluster.parse(room)
    profiles = priced(cluster, seed=5)
    told = {tuple(row[:-1]): row[-1] for row in profiles.shaped.tolist()}
    for gang in (2, 3, 4, 5):
        instance = jobs_on(cluster, [gang], profiles)
        best = max(
            told[(0, *dimensions(gang, *cluster.used_parts(np.array(gpus), np.array([0]))[:, 0].tolist()))]
            for gpus in itertools.combinations(range(cluster.gpus), gang)
        )
        assert instance.ideal_s[0] == pytest.approx(100.0 * profiles.compute_s[0, 0] / best, rel=1e-12)


def test_a_tier_is_priced_as_its_fastest_shape() -> None:
    """Four GPUs: 2+2 in a machine, in a rack and over racks are the fastest here; flat shapes are slower."""
    cluster = Cluster.parse("4x4s2/2")
    efficiency = dict.fromkeys(reachable_shapes(cluster, 4), 0.1)
    efficiency |= {(2, 2, 1, 1): 0.8, (1, 2, 2, 1): 0.4, (1, 1, 2, 2): 0.2}
    instance = jobs_on(cluster, [4], priced(cluster, efficiency))
    compute = instance.compute_s[0, 0, 0]
    found = dict(enumerate(instance.iteration_s[0, :, 0].tolist()))
    shares = {tier: compute / seconds for tier, seconds in found.items()}
    # no slot holds four GPUs: it is priced as the next tier outwards that has a placement
    assert [shares[tier] for tier in OUTWARDS] == pytest.approx([0.8, 0.8, 0.4, 0.2])


def test_a_missing_efficiency_names_model_dimensions_and_remedy() -> None:
    cluster = Cluster.parse("2x4s2")
    profiles = priced(cluster)
    shape = profiles.shaped[["gpu", "slot", "machine", "rack"]]
    keep = (profiles.shaped["profile"] == 0) | (shape != np.array((1, 2, 2, 1), shape.dtype))
    cut = Profiles(profiles.rows, profiles.compute_s, profiles.gpu_types, shaped=profiles.shaped[keep])
    with pytest.raises(WorkloadError, match=r"'b' has no efficiency for 4 GPUs in .* slot 2, machine 2,.*--profiles"):
        jobs_on(cluster, [1, 4], cut)
    assert len(jobs_on(cluster, [4, 1], cut).workload) == 2  # no job of that model has such a gang
    with pytest.raises(WorkloadError, match="'b' has no efficiency for 2 GPUs in the dimensions rack 2,"):
        jobs_on(Cluster.parse("2x4s2/1"), [1, 2], profiles)  # one rack does not have this shape


@pytest.mark.parametrize(
    ("field", "value"),
    [("efficiency", 0.0), ("efficiency", np.nextafter(1.0, 2.0)), ("efficiency", np.nan), ("rack", 0), ("profile", 2)],
)
def test_shaped_rows_out_of_range_are_refused(field: str, value: float) -> None:
    profiles = priced(Cluster.parse("2x2s2"))
    bad = profiles.shaped.copy()
    bad[field][1] = value
    with pytest.raises(WorkloadError, match=f"{field}|profile"):
        Profiles(profiles.rows, profiles.compute_s, profiles.gpu_types, shaped=bad)
    with pytest.raises(WorkloadError, match="two rows of shaped have the same profile, gpu, slot"):
        Profiles(profiles.rows, profiles.compute_s, profiles.gpu_types, shaped=np.repeat(bad[:1], 2))


def test_shapes_change_fingerprints_only() -> None:
    profiles = priced(Cluster.parse("2x4s2"))
    plain = Profiles(profiles.rows, profiles.compute_s, profiles.gpu_types)
    one, two = (Workload.from_columns([0.0], [4], [9.0], profiles=table) for table in (plain, profiles))
    assert one.fingerprint() != two.fingerprint()
    assert np.all(np.sort(profiles.shaped) == profiles.shaped)
    for network in (Network(), Network("none")):
        times = [Instance(Cluster.parse("2x4s2"), workload, network).iteration_s for workload in (one, two)]
        assert times[0].tobytes() == times[1].tobytes()


def test_contention_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"contention is 'maxmin'.*links"):
        Network("dimensions", contention=Contention("maxmin"))


def test_environments_with_and_without_shapes_share_a_batch() -> None:
    from gpusched_env.core.state import allocate

    cluster = Cluster.parse("4x4s2/2")
    profiles = priced(cluster)
    shaped = jobs_on(cluster, [8, 3, 2, 5], profiles)
    plain = Instance(Cluster.parse("2x8"), shaped.workload, Network(), shaped.semantics)
    state = allocate([plain, shaped])
    for b, instance in enumerate((plain, shaped)):
        scheduler, alone = make_scheduler("fifo"), simulate(instance, make_scheduler("fifo"))
        simulation = Simulation(instance, arrays=state.handle(b))
        scheduler.reset(simulation.view_for(scheduler))
        while simulation.advance() is Outcome.DECIDE:
            for decision in scheduler.decide(simulation.view_for(scheduler)):
                simulation.apply(decision)
        assert simulation.log().digest() == alone.digest()


@pytest.mark.parametrize(("gangs", "step", "done"), [(1000.0, 60, 1020.0), (1020.0, 60, 1020.0), (0.5, 60, 60.0)])
def test_work_comes_in_whole_steps(gangs: float, step: int, done: float) -> None:
    """N iterations on a GPU by gangs of g: ceil(N / (K g)) steps of K iterations of the gang."""
    cluster = Cluster.parse("1x4")
    workload = Workload.from_columns([0.0], [4], iterations=[gangs])
    instance = Instance(cluster, workload, Network("none"), Semantics(step_iterations=step))
    assert instance.iterations.tolist() == [done]
    assert instance.ideal_s.tolist() == [done]
    by_time = Workload.from_columns([0.0], [4], duration_s=[gangs])
    assert Instance(cluster, by_time, Network("none"), Semantics(step_iterations=step)).ideal_s.tolist() == [done]


def test_steps_are_written_only_where_work_comes_in_steps() -> None:
    assert "step_iterations" not in Semantics().as_dict()
    assert Semantics(step_iterations=5).as_dict()["step_iterations"] == 5
    for bad in (-1, 1.5, True):
        with pytest.raises(ScenarioError, match=r"semantics\.step_iterations"):
            Semantics(step_iterations=bad)  # type: ignore[arg-type]


def test_a_gang_of_one_never_communicates() -> None:
    cluster = Cluster.parse("2x4s2/1")
    instance = jobs_on(cluster, [1, 1], priced(cluster))
    assert (instance.communication_s == 0).all()
    assert instance.iteration_s.shape[1] == NETWORK + 2
