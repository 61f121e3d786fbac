"""Placement rules: whole gangs on free GPUs on the documented tier, against brute force on tiny clusters."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from helpers import Script, begin, check_counts, play, state_bytes, two_types, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.core.placement.rules import goes_anywhere, rule_number
from gpusched_env.errors import GpuschedError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import PLACEMENT_RULES, RULE_NUMBER, ClusterView, Simulation, Start

CLUSTERS = {
    "2x2": Cluster.parse("2x2"),
    "4x2/2": Cluster.parse("4x2/2"),
    "3x3/1": Cluster.parse("3x3/1"),
    "6x1/2": Cluster.parse("6x1/2"),
    "4+4+2+2": Cluster([NodeGroup(2, 4), NodeGroup(2, 2)]),
    "2+2+4|1": Cluster([NodeGroup(2, 2, nodes_per_rack=1), NodeGroup(1, 4), NodeGroup(1, 1)]),
    "types": two_types((1, 2), (3, 2)),
}


def occupied(cluster: Cluster, busy: tuple[int, ...], gang: int, seed: int = 0) -> Simulation:
    """Busy GPUs are held by one-GPU jobs; the last job is a waiting gang."""
    profiles = Profiles.from_rows(
        [dict(name="u", batch=1, gradient_bytes=0, memory_bytes=0, skew=0, overlap=1, compute_s=1.0)], cluster.gpu_types
    )
    jobs = len(busy) + 1
    workload = Workload.from_columns([0.0] * jobs, [1] * len(busy) + [gang], [100.0] * jobs, profiles=profiles)
    simulation = begin(Instance(cluster, workload, Network("none"), Semantics()), seed)
    for job, gpu in enumerate(busy):
        assert simulation.apply(Start(job, gpus=(gpu,))) == ""
    return simulation


def place(cluster: Cluster, busy: tuple[int, ...], gang: int, rule: str, seed: int = 0) -> tuple[int, ...] | None:
    """GPUs that a rule gives, None if it refuses; checks the properties that all rules share."""
    simulation = occupied(cluster, busy, gang, seed)
    view = ClusterView(simulation)
    promised, before = view.can_place(len(busy), rule), state_bytes(simulation)
    refusal = simulation.apply(Start(len(busy), rule))
    assert (refusal == "") == promised
    check_counts(simulation)
    if refusal:
        assert state_bytes(simulation) == before
        fits = gang <= cluster.gpus - len(busy)
        assert refusal == ("the placement rule finds no place now" if fits else "too few free GPUs")
        return None
    log = simulation.log()
    gpus = tuple(log.gang(len(log.events) - 1).tolist())
    assert len(set(gpus)) == len(gpus) == gang
    assert not set(gpus) & set(busy)
    assert log.events["tier"][-1] == tier_of(cluster, gpus)
    return gpus


def machines_of(cluster: Cluster, gpus: tuple[int, ...]) -> set[int]:
    return {int(cluster.node_of_gpu[gpu]) for gpu in gpus}


def racks_of(cluster: Cluster, gpus: tuple[int, ...]) -> set[int]:
    return {int(cluster.nodes["rack"][node]) for node in machines_of(cluster, gpus)}


def tier_of(cluster: Cluster, gpus: tuple[int, ...]) -> int:
    if len(machines_of(cluster, gpus)) == 1:
        return MACHINE
    return RACK if len(racks_of(cluster, gpus)) == 1 else NETWORK


def free_of(cluster: Cluster, busy: tuple[int, ...]) -> np.ndarray:
    """Number of free GPUs of each machine."""
    free = [gpu for gpu in range(cluster.gpus) if gpu not in busy]
    return np.bincount(cluster.node_of_gpu[free], minlength=len(cluster.nodes))


def every_place(cluster: Cluster, busy: tuple[int, ...], gang: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations([g for g in range(cluster.gpus) if g not in busy], gang))


@st.composite
def situations(draw: Callable) -> tuple[Cluster, tuple[int, ...], int]:
    cluster = CLUSTERS[draw(st.sampled_from(sorted(CLUSTERS)))]
    busy = draw(st.sets(st.integers(0, cluster.gpus - 1), max_size=cluster.gpus - 1))
    return cluster, tuple(sorted(busy)), draw(st.integers(1, cluster.gpus))


@settings(max_examples=150)
@given(situations(), st.sampled_from(sorted(PLACEMENT_RULES)))
def test_every_rule_gives_a_whole_gang_of_free_gpus_or_refuses(situation, rule: str) -> None:
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, rule)
    if goes_anywhere(rule):
        assert (gpus is not None) == (gang <= cluster.gpus - len(busy))


@settings(max_examples=100)
@given(situations())
def test_pack_uses_the_tightest_tier_that_any_placement_has(situation) -> None:
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "pack")
    if gpus is not None:
        assert tier_of(cluster, gpus) == min(tier_of(cluster, other) for other in every_place(cluster, busy, gang))


@settings(max_examples=100)
@given(situations())
def test_pack_is_best_fit(situation) -> None:
    """No machine with fewer free GPUs holds the gang;
    else no rack with fewer free GPUs, nor fewer machines of that rack.
    """
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "pack")
    free = free_of(cluster, busy)
    if gpus is None or tier_of(cluster, gpus) == NETWORK:
        return
    if tier_of(cluster, gpus) == MACHINE:
        assert free[machines_of(cluster, gpus).pop()] == min(n for n in free if n >= gang)
        return
    rack = racks_of(cluster, gpus).pop()
    by_rack = np.bincount(cluster.nodes["rack"], free)
    assert by_rack[rack] == min(n for n in by_rack if n >= gang)
    inside = [p for p in every_place(cluster, busy, gang) if racks_of(cluster, p) == {rack}]
    assert len(machines_of(cluster, gpus)) == min(len(machines_of(cluster, p)) for p in inside)


@settings(max_examples=100)
@given(situations())
def test_rack_stays_in_one_rack_and_refuses_only_if_every_rack_is_too_full(situation) -> None:
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "rack")
    tiers = [tier_of(cluster, p) for p in every_place(cluster, busy, gang)]
    if gpus is None:
        assert not any(tier <= RACK for tier in tiers)
    else:
        assert tier_of(cluster, gpus) == min(tiers)


def whole_machines(cluster: Cluster, busy: tuple[int, ...], gang: int, one_rack: bool) -> bool:
    """Brute force: floor(g/G) entirely free machines and another one with the rest; G = GPUs of the largest machine."""
    size = int(cluster.nodes["gpus"].max())
    free = free_of(cluster, busy)
    whole, rest = divmod(gang, size)
    for chosen in itertools.permutations(range(len(free)), whole + (rest > 0)):
        if one_rack and len({int(cluster.nodes["rack"][n]) for n in chosen}) > 1:
            continue
        if all(free[n] == size for n in chosen[:whole]) and (not rest or free[chosen[-1]] >= rest):
            return True
    return False


@settings(max_examples=120)
@given(situations())
def test_consolidate_uses_the_fewest_machines_or_refuses(situation) -> None:
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "consolidate")
    largest_first = np.sort(cluster.nodes["gpus"])[::-1]
    machines = 1 + int(np.searchsorted(np.cumsum(largest_first), gang))  # on the empty cluster
    free = free_of(cluster, busy)
    fitting = [
        nodes for nodes in map(list, itertools.combinations(range(len(free)), machines)) if gang <= free[nodes].sum()
    ]
    assert (gpus is not None) == bool(fitting)
    if gpus is not None:
        assert len(machines_of(cluster, gpus)) <= machines
        if any(len(set(cluster.nodes["rack"][nodes].tolist())) == 1 for nodes in fitting):
            assert len(racks_of(cluster, gpus)) == 1


@pytest.mark.parametrize("name", CLUSTERS)
def test_consolidate_finds_a_place_for_every_gang_on_the_empty_cluster(name: str) -> None:
    """Otherwise a job that must be consolidated (Tiresias, skewed models) would wait for ever."""
    cluster = CLUSTERS[name]
    assert [gang for gang in range(1, cluster.gpus + 1) if place(cluster, (), gang, "consolidate") is None] == []


@settings(max_examples=120)
@given(situations())
def test_yarn_takes_whole_machines_under_one_switch_or_refuses(situation) -> None:
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "yarn")
    assert (gpus is not None) == whole_machines(cluster, busy, gang, one_rack=True)
    if gpus is None:
        return
    assert len(racks_of(cluster, gpus)) == 1
    if gang <= cluster.nodes["gpus"].max():  # the first machine with enough, not the fullest
        assert machines_of(cluster, gpus) == {int(np.flatnonzero(free_of(cluster, busy) >= gang)[0])}


@settings(max_examples=60)
@given(situations())
def test_count_takes_the_lowest_ids(situation) -> None:
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "count")
    if gpus is not None:
        assert gpus == every_place(cluster, busy, gang)[0]


@settings(max_examples=60)
@given(situations())
def test_spread_takes_gpus_evenly_from_machines(situation) -> None:
    """One GPU from each machine in turn: no machine gives two more than a machine that still has free GPUs."""
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "spread")
    if gpus is None:
        return
    taken = np.bincount(cluster.node_of_gpu[list(gpus)], minlength=len(cluster.nodes))
    left = free_of(cluster, busy) - taken
    for node, other in itertools.permutations(range(len(taken)), 2):
        if left[other] > 0:
            assert taken[node] <= taken[other] + (node < other)


@pytest.mark.parametrize(
    ("rule", "busy", "gang", "expected"),
    [
        ("count", (0, 5), 4, {1, 2, 3, 4}),
        ("pack", (0, 4, 5), 2, {6, 7}),  # machine 1 has exactly two free
        ("pack", (0, 4, 5), 4, {8, 9, 10, 11}),  # machine 2 is the first empty one
        ("pack", (0, 4, 8, 9, 12), 5, {10, 11, 13, 14, 15}),  # the second rack is the fuller one
        ("consolidate", (0, 4, 5), 6, {8, 9, 10, 11, 12, 13}),
        ("consolidate", (0, 4, 12), 6, {1, 2, 3, 5, 6, 7}),  # two machines are the fewest; the first rack has them
        ("consolidate", (0, 4, 8, 12), 7, None),  # twelve are free, but no two machines have seven
        ("yarn", (0,), 3, {1, 2, 3}),
        ("yarn", (0,), 6, {4, 5, 6, 7, 1, 2}),  # first fit: the rest on the first machine that holds it
        ("rack", (0, 8), 8, None),
        ("spread", (0,), 5, {1, 4, 8, 12, 2}),
        ("most-free", (0, 4, 5), 2, {8, 9}),  # the first of the two machines with four free
        ("most-free", (0, 4, 5), 6, {8, 9, 10, 11, 12, 13}),
        ("most-free", (0, 4, 5, 8, 12, 13, 14), 7, {1, 2, 3, 9, 10, 11, 6}),  # three, three, then one of two
    ],
)
def test_by_hand_on_two_racks_of_two_machines_of_four(rule: str, busy: tuple, gang: int, expected: set | None) -> None:
    cluster = Cluster.parse("4x4/2")
    gpus = place(cluster, busy, gang, rule)
    assert (None if gpus is None else set(gpus)) == expected


@settings(max_examples=100)
@given(situations())
def test_most_free_fills_the_emptiest_machines_first(situation) -> None:
    """As Pollux's simulator places a Tiresias job: ``Counter.most_common(1)`` until the gang is complete."""
    cluster, busy, gang = situation
    gpus = place(cluster, busy, gang, "most-free")
    free = Counter(dict(enumerate(free_of(cluster, busy).tolist())))
    expected: Counter[int] = Counter()
    while gpus is not None and expected.total() < gang:
        node, count = free.most_common(1)[0]
        expected[node] = min(count, gang - expected.total())
        free -= Counter({node: expected[node]})
    assert Counter(cluster.node_of_gpu[list(gpus or ())].tolist()) == expected


@pytest.mark.parametrize("rule", PLACEMENT_RULES)
def test_every_rule_places_a_gang_of_one(rule: str) -> None:
    assert place(Cluster.parse("2x2"), (), 1, rule) is not None


def test_the_tables_of_rules_are_read_only() -> None:
    for table in (PLACEMENT_RULES, RULE_NUMBER):
        with pytest.raises(TypeError, match="does not support item assignment"):
            table["pack"] = 99  # type: ignore[index]


NEAREST = r"unknown placement rule 'consolidte': did you mean 'consolidate'"
PLACED = sorted(
    name
    for name in list_baselines({"links"})
    if "placement" in {field.name for field in dataclasses.fields(make_scheduler(name))}
)


@pytest.mark.parametrize("name", PLACED)
def test_no_scheduler_plays_an_unknown_rule(name: str) -> None:
    with pytest.raises(GpuschedError, match=NEAREST):
        play(unit_instance([0], [1], [1]), f"{name}:placement=consolidte")


def test_decisions_and_questions_refuse_an_unknown_rule() -> None:
    simulation = occupied(Cluster.parse("2x2"), (0,), 1)
    view, before = ClusterView(simulation), state_bytes(simulation)
    order = np.array([1], np.int32)
    for ask in (
        lambda rule: simulation.apply(Start(1, rule)),
        lambda rule: view.can_place(1, rule),
        lambda rule: view.where(1, rule),
        lambda rule: view.list_schedule(order, rule),
        lambda rule: view.preemptive_schedule(order, rule),
        rule_number,
    ):
        with pytest.raises(GpuschedError, match=NEAREST):
            ask("consolidte")
    assert state_bytes(simulation) == before


@pytest.mark.parametrize("number", [len(RULE_NUMBER), -5, 99, 1 << 40])
def test_numbers_that_no_rule_has_are_refused(number: int) -> None:
    simulation = occupied(Cluster.parse("2x2"), (0,), 1)
    view, before = ClusterView(simulation), state_bytes(simulation)
    for planned in (view.list_schedule, view.preemptive_schedule):
        with pytest.raises(GpuschedError, match=rf"placement rule number {number}: no rule has it.*RULE_NUMBER"):
            list(planned(np.array([1]), np.array([number])))
    with pytest.raises(GpuschedError, match=rf"placement rule number {number}: no rule has it.*RULE_NUMBER"):
        simulation.start(1, number)
    assert state_bytes(simulation) == before


def test_random_placement_is_seeded_and_uniform() -> None:
    """All 15 pairs of 6 free GPUs are equally likely in one run (chi-square, 14 degrees of freedom, 1 in 10,000)."""
    pairs = 1500
    instance = unit_instance([0, 0, *range(1, pairs + 1)], [1, 1] + [2] * pairs, [1e9, 1e9] + [0.5] * pairs, "2x4")
    first = Script({0.0: [Start(0, gpus=(1,)), Start(1, gpus=(6,))]}, then="random")
    log = play(instance, first)
    assert log.events["gpu_count"].sum() == 2 + 2 * pairs
    drawn = [tuple(sorted(pair)) for pair in log.gpus[2:].reshape(-1, 2).tolist()]
    counts = Counter(drawn)
    assert len(counts) == 15
    assert not any(1 in pair or 6 in pair for pair in counts)
    assert sum((n - pairs / 15) ** 2 / (pairs / 15) for n in counts.values()) < 42.6
    assert len(Counter(itertools.pairwise(drawn))) > 200  # of 225: consecutive draws are independent
    one, again, other = (place(Cluster.parse("4x8"), (0,), 8, "random", seed) for seed in (1, 1, 2))
    assert one == again != other


def test_random_placement_is_uniform_over_seeds() -> None:
    """The first draw of each seed: every one of 8 GPUs is equally likely (chi-square, 7 degrees of freedom)."""
    instance = unit_instance([0.0], [1], [1.0], "2x4")
    counts = np.zeros(8)
    for seed in range(1600):
        simulation = begin(instance, seed)
        simulation.apply(Start(0, "random"))
        counts[simulation.arrays.chosen[0]] += 1
    assert ((counts - 200) ** 2 / 200).sum() < 31.0


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        ((1, 2), ""),
        ((2, 1), ""),
        ((1,), "the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it"),
        ((1, 2, 3), "the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it"),
        (tuple(range(99)), "the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it"),
        ((0, 1), "an explicit GPU does not exist, is listed twice or is not free"),
        ((1, 1), "an explicit GPU does not exist, is listed twice or is not free"),
        ((1, 4), "an explicit GPU does not exist, is listed twice or is not free"),
        ((-1, 1), "an explicit GPU does not exist, is listed twice or is not free"),
    ],
)
def test_explicit_gpus(gpus: tuple[int, ...], reason: str) -> None:
    simulation = occupied(Cluster.parse("1x4"), (0,), 2)
    before = state_bytes(simulation)
    assert simulation.apply(Start(1, gpus=gpus)) == reason
    assert (state_bytes(simulation) == before) == bool(reason)
    check_counts(simulation)
    if not reason:
        log = simulation.log()
        assert tuple(log.gang(len(log.events) - 1).tolist()) == gpus
