"""Contention between gangs in the simulator: values by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers import Script
from network_play import PROFILE, AtOnce, gpus_of, instance_of, network, paces, rates_GBps, started

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError, ScenarioError, WorkloadError
from gpusched_env.event_log import COMPLETE, RATE
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import CONTENTION_MODELS, Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import ClairvoyantView, Preempt, Simulation, Start, Wait, simulate

TWO = [{0: 4, 1: 4}, {0: 4, 1: 4}]
LATENCY_S = 12 * 3.4e-6 + 2 * 14e-6  # 8 GPUs on two machines: 14 steps, two of them between machines
BYTES_S = 2 * 7 / 8 * 1e8 / 12e9


# --- two gangs on the same two machines


def test_two_gangs_on_the_same_machines() -> None:
    expected = {
        ("none", ()): 0.014652133,
        ("maxmin", ()): 0.029235467,
        ("kway", (("alpha", 0.0),)): 0.029235467,
        ("kway", (("alpha", 0.2), ("xi1", 1.0))): 0.032152133,
        ("maxmin", (("duty", "const"), ("xi1", 0.5))): 0.021943800,
    }
    stretch = [1.0, 2.0, 2.0, 2.2, 1.5]
    for ((model, fields), printed), factor in zip(expected.items(), stretch, strict=True):
        found = paces("2x8", TWO, network(model, **dict(fields)))
        np.testing.assert_allclose(found, 0.05 + LATENCY_S + factor * BYTES_S, rtol=1e-12)
        np.testing.assert_allclose(found - 0.05, printed, atol=5e-10)


@pytest.mark.parametrize(
    ("overlap", "alone_ms", "contended_ms"),
    [(1.0, 64.652133, 79.235467), (2.0, 52.102639, 57.919880), (4.0, 50.091925, 51.401069)],
)
def test_overlap_of_compute_and_communication(overlap: float, alone_ms: float, contended_ms: float) -> None:
    profiles = [PROFILE | {"overlap": overlap}]
    found = [paces("2x8", gangs, network(), profiles=profiles)[0] for gangs in (TWO[:1], TWO)]
    np.testing.assert_allclose(found, [alone_ms / 1e3, contended_ms / 1e3], atol=5e-10)
    exact = [(0.05**overlap + (LATENCY_S + n * BYTES_S) ** overlap) ** (1 / overlap) for n in (1, 2)]
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_the_duty_of_the_others_on_the_bottleneck() -> None:
    """Other gangs send for their solo share of an iteration:
    a mostly sending gang barely notices mostly computing ones.
    """
    profiles = [PROFILE, PROFILE | {"name": "idle", "compute_s": 0.5}]
    found = paces("2x8", TWO, network(duty="solo"), profiles=profiles, profile=[0, 1])
    alone = LATENCY_S + BYTES_S
    for pace, compute, other in ((found[0], 0.05, 0.5), (found[1], 0.5, 0.05)):
        assert pace == pytest.approx(compute + LATENCY_S + BYTES_S * (1 + alone / (other + alone)), rel=1e-12)


# --- max-min over leaf and spine

SPREAD = [{0: 1, 4: 1}, {1: 1, 5: 1}, {2: 1, 3: 1}, {2: 1, 6: 1}]


@pytest.mark.parametrize(
    ("gangs", "rates"),
    [
        (SPREAD[:1], {1: [12], 2: [12], 4: [12], 8: [6]}),
        (SPREAD[:2], {1: [12, 12], 2: [12, 12], 4: [6, 6], 8: [3, 3]}),
        (SPREAD, {1: [12, 12, 6, 6], 2: [9, 9, 6, 6], 4: [4, 4, 8, 4], 8: [2, 2, 10, 2]}),
        ([{0: 1, 1: 1, 4: 1, 5: 1}], {4: [12]}),  # machines in order: each rack is crossed once
    ],
)
def test_rates_under_oversubscription(gangs: list[dict[int, int]], rates: dict[int, list[float]]) -> None:
    for omega, expected in rates.items():
        net = network(kind="leaf-spine", oversubscription=float(omega))
        np.testing.assert_allclose(rates_GBps("8x2/4", gangs, net), expected, rtol=1e-9)


def test_a_ring_and_its_rivals_on_one_switch() -> None:
    gangs = [{1: 1, 2: 1}, {2: 1, 3: 1}, {1: 1, 3: 1}, {2: 1, 4: 1}]
    np.testing.assert_allclose(rates_GBps("5x3", gangs, network(nic_GBps=1.0)), [1 / 3, 1 / 3, 2 / 3, 1 / 3], rtol=1e-9)
    straddle = network("kway", alpha=0.0, nic_GBps=1.0)
    np.testing.assert_allclose(rates_GBps("5x3", gangs, straddle), [1 / 3, 1 / 3, 1 / 2, 1 / 3], rtol=1e-12)


def test_rails_and_the_bus_of_a_machine() -> None:
    rails = network(kind="rail-optimised", nics=4, nic_GBps=40.0)
    assert rates_GBps("2x8/2", [{0: 1, 1: 1}, {0: 3, 1: 2}, {0: 4, 1: 4}], rails) == pytest.approx([10.0, 15.0, 15.0])
    bus = network(nic_GBps=12.0, host_bus_GBps=8.0)
    assert rates_GBps("2x8", [{0: 4}], bus) == pytest.approx([8.0])
    assert rates_GBps("2x8", [{0: 4}, {0: 2, 1: 2}, {0: 1}], bus) == pytest.approx([4.0, 4.0, 120.0])


# --- SJF-BCO: equations 6 to 9

SJF = dict(nic_GBps=10.0, gpu_GBps=100.0, gpu_latency_s=0.0, nic_latency_s=0.0)
SJF |= dict(reduction_GBps=1000.0, machine_overhead_s=0.0005)
SJF_PROFILE = [PROFILE | {"gradient_bytes": 1e8, "compute_s": 0.015}]
STRADDLERS = [{0: 2, m: 2} for m in range(1, 5)]  # all on machine 0


def test_straddle_counts() -> None:
    gangs = [{0: 2, 1: 2}, {1: 1, 2: 1}, {3: 4}, {0: 1, 2: 3}, {1: 1, 3: 1}]
    simulation = started(*instance_of("4x8", gangs, network("kway", alpha=0.0)))
    slowdown = simulation.view_for(AtOnce([])).network.slowdown(np.arange(5))
    assert slowdown.tolist() == [3, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("mode", "taus"),
    [
        ("clamp", [0.031075, 0.031075, 0.040075, 0.049075]),
        ("raw", [0.022075, 0.031075, 0.040075, 0.049075]),
        ("affine", [0.031075, 0.040075, 0.049075, 0.058075]),
    ],
)
def test_iterations_of_sjf_bco(mode: str, taus: list[float]) -> None:
    net = network("kway", xi1=0.5, k_mode=mode, **SJF)
    for count, tau in enumerate(taus, 1):
        found = paces("6x8", [*STRADDLERS[:count], {5: 4}], net, profiles=SJF_PROFILE)
        np.testing.assert_allclose(found, [tau] * count + [0.017075], rtol=1e-12)


@pytest.mark.parametrize(("slot_s", "expected"), [(1.0, [18.0, 32.0, 50.0]), (0.0, [17.075, 31.075, 49.075])])
def test_gangs_do_whole_iterations_in_a_slot(slot_s: float, expected: list[float]) -> None:
    for gangs, finish in zip(([{0: 4}], STRADDLERS[:1], STRADDLERS), expected, strict=True):
        net = network("kway", xi1=0.5, **SJF)
        instance, scheduler = instance_of("6x8", gangs, net, profiles=SJF_PROFILE, slot_s=slot_s)
        log = simulate(instance, scheduler)
        validate(instance, log)
        done = log.events["time_s"][log.events["kind"] == COMPLETE]
        np.testing.assert_allclose(done, [finish] * len(gangs), rtol=1e-9)


def test_an_iteration_longer_than_a_slot_is_refused() -> None:
    reason = "job 0: an iteration takes 1.2 s, and a slot 1 s, so that no whole iteration fits"
    with pytest.raises(WorkloadError, match=reason):
        instance_of("1x8", [{0: 1}], network("kway"), profiles=[PROFILE | {"compute_s": 1.2}], slot_s=1.0)
    instance_of("1x8", [{0: 1}], network("kway"), profiles=[PROFILE | {"compute_s": 1.0}], slot_s=1.0)


def test_without_loss_and_overhead_placement_does_not_matter() -> None:
    """Equal rates inside and between servers, no overhead, alpha = 0, xi1 = 0: always one contender."""
    net = network("kway", xi1=0.0, alpha=0.0, nic_GBps=10.0, gpu_GBps=10.0, gpu_latency_s=0.0, nic_latency_s=0.0)
    found = paces("6x8", [{5: 4}, *STRADDLERS[:3]], net, profiles=SJF_PROFILE)
    np.testing.assert_allclose(found, [0.03] * 4, rtol=1e-12)


def test_contention_that_grows_after_ten_slots() -> None:
    net = network("kway", xi1=0.5, **SJF)
    instance, scheduler = instance_of("6x8", STRADDLERS, net, arrival=[0, 10, 10, 10], profiles=SJF_PROFILE, slot_s=1.0)
    log = simulate(instance, scheduler)
    validate(instance, log)
    assert job_times(instance, log)["finish_s"][0] == 44.0  # ten slots of 32 iterations, then 680 by 20


def test_unchanged_whole_iterations_are_not_logged_again() -> None:
    """If the number of whole iterations a slot is unchanged, no rate is logged and no work is rounded."""
    net = network("kway", xi1=0.5, **SJF)  # two straddlers count as one: .031075 either way
    instance, scheduler = instance_of("6x8", STRADDLERS[:2], net, arrival=[0, 2.5], profiles=SJF_PROFILE, slot_s=1.0)
    log = simulate(instance, scheduler)
    assert (log.events["kind"] == RATE).sum() == 2
    assert job_times(instance, log)["finish_s"].tolist() == [
        32.0,
        34.0,
    ]  # a slot ends at a whole second, whenever a gang starts
    changes = network("maxmin", **SJF | {"nic_GBps": 10.5, "machine_overhead_s": 0.0})
    instance, scheduler = instance_of(
        "6x8", [{0: 2, 1: 2}, {0: 1, 2: 1}], changes, arrival=[0, 2.5], slot_s=0.1,
        profiles=[PROFILE | {"gradient_bytes": 1e6, "compute_s": 0.03}],
    )  # fmt: skip
    log = simulate(instance, scheduler)
    rates = log.events[log.events["kind"] == RATE]
    assert rates["job"].tolist() == [0, 1]  # three whole iterations a slot, alone and together


@pytest.mark.parametrize(
    ("straddling", "machines", "extra", "tau"),
    [
        (4, 2, 0.15, 0.02 * (1 + (1 / 6 + 1 / 14) * 0.15 / 0.85)),
        (4, 2, 0.60, 0.02 * (1 + 0.3571428571428571)),
        (8, 8, 0.15, 0.02 / 0.85),
        (8, 8, 0.60, 0.05),
        (2, 2, 0.15, 0.02 * (1 + 1 / 14 * 0.15 / 0.85)),
    ],
)
def test_a_budget_of_extra_time(straddling: int, machines: int, extra: float, tau: float) -> None:
    printed = {(4, 2, 0.15): 0.0208403, (4, 2, 0.60): 0.0271429, (8, 8, 0.15): 0.0235294, (2, 2, 0.15): 0.0202521}
    gangs = [dict.fromkeys(range(machines), 1), *({0: 1, m: 1} for m in range(8, 7 + straddling)), {15: 4}]
    net = network("budget", xi1=0.5, alpha=0.2, extra=extra, gpu_latency_s=0.0)
    profiles = [PROFILE | {"gradient_bytes": 1.0, "compute_s": 0.02}]
    found = paces("16x8", gangs, net, profiles=profiles)
    assert found[0] == pytest.approx(tau, rel=1e-9)
    assert tau == pytest.approx(printed.get((straddling, machines, extra), 0.05), abs=5e-8)
    assert found[-1] == pytest.approx(0.02, rel=1e-9)  # one machine: none


# --- coarse rules


def test_a_shared_machine_costs_a_fixed_share() -> None:
    gangs = [{0: 2, 1: 2}, {1: 1, 2: 1}, {3: 4}, {4: 1, 5: 1}]
    alone = paces("6x4", gangs, network("none"))
    found = paces("6x4", gangs, network("flat", shared_loss=0.25))
    np.testing.assert_allclose(found / alone, [1 / 0.75, 1 / 0.75, 1, 1], rtol=1e-12)


def test_the_lowest_ratio_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "ratios.csv"
    pairs = {("a", "b"): 0.4, ("a", "c"): 0.7, ("b", "a"): 0.2}
    rows = [f"{x},{y},{pairs.get((x, y), 1.0)}" for x in "abc" for y in "abc"]
    path.write_text("\n".join(["model_a,model_b,ratio", *rows]) + "\n")
    net = network(Contention("table", ratios=str(path)))
    profiles = [PROFILE | {"name": name} for name in "abc"]
    gangs = [{0: 1, 1: 1}, {0: 1, 2: 1}, {1: 1, 3: 1}]
    given = dict(profiles=profiles, profile=[0, 1, 2])
    alone = paces("4x4", gangs, network("none"), **given)
    np.testing.assert_allclose(paces("4x4", gangs, net, **given) / alone, [1 / 0.4, 1 / 0.35, 1.0], rtol=1e-12)
    gangs[1] = {0: 2}
    alone = paces("4x4", gangs, network("none"), **given)
    np.testing.assert_allclose(paces("4x4", gangs, net, **given) / alone, [1 / 0.7, 1.0, 1.0], rtol=1e-12)
    path.write_text("\n".join(["model_a,model_b,ratio", *rows[1:]]) + "\n")
    with pytest.raises(ScenarioError, match=r"ratios\.csv: no ratio for 'a' beside 'a'.*missing='unit'"):
        paces("4x4", gangs, net, **given)
    paces("4x4", gangs, network(Contention("table", ratios=str(path), missing="unit")), **given)


# --- metrics


def test_seconds_of_communication_under_contention() -> None:
    """The first gang ends after 100 common iterations; the second does 150 more alone."""
    instance, scheduler = instance_of("2x8", TWO, network(), iterations=[100, 250])
    log = simulate(instance, scheduler)
    validate(instance, log)
    together, alone = 0.05 + LATENCY_S + 2 * BYTES_S, 0.05 + LATENCY_S + BYTES_S
    times = job_times(instance, log)
    np.testing.assert_allclose(times["finish_s"], [100 * together, 100 * together + 150 * alone], rtol=1e-12)
    np.testing.assert_allclose(times["communication_s"], times["finish_s"] - [100 * 0.05, 250 * 0.05], rtol=1e-9)
    cut = job_times(instance, log, end_s=60 * together)
    np.testing.assert_allclose(cut["communication_s"], 60 * (together - 0.05), rtol=1e-9)


def test_communication_of_a_gang_that_is_preempted() -> None:
    """Rates count from the end of the restore; a gang that is being checkpointed sends nothing."""
    instance, _ = instance_of("2x8", TWO, network(), iterations=[1000, 1000], checkpoint_s=5.0, restore_s=7.0)
    places = gpus_of(instance.cluster, TWO)
    together, alone = 0.05 + LATENCY_S + 2 * BYTES_S, 0.05 + LATENCY_S + BYTES_S
    script = Script(
        {
            0.0: [Start(0, gpus=places[0]), Start(1, gpus=places[1]), Wait(10.0)],
            10.0: [Preempt(0)],
            15.0: [Start(0, gpus=places[0])],
        }
    )
    log = simulate(instance, script)
    validate(instance, log)
    rates = log.events[log.events["kind"] == RATE][:5]
    end = 15.0 + (1000 - 10 / together - 5 / alone) * together
    assert rates["job"].tolist() == [0, 1, 1, 1, 0]
    assert rates["time_s"].tolist() == [0.0, 0.0, 10.0, 15.0, 15.0]
    np.testing.assert_allclose(rates["value"], [together, together, alone, together, together], rtol=1e-12)
    times = job_times(instance, log)
    assert times["finish_s"][1] == pytest.approx(end, rel=1e-12)
    assert times["communication_s"][1] == pytest.approx(end - 1000 * 0.05, rel=1e-9)
    assert times["service_s"][0] == pytest.approx(times["finish_s"][0] - 12.0, rel=1e-12)
    assert times["communication_s"][0] == pytest.approx(times["service_s"][0] - 1000 * 0.05, rel=1e-9)


# --- trends


def test_step_time_jumps_at_the_boundary_of_a_machine_and_then_flattens() -> None:
    inside = [paces("8x8", [{0: n}], network())[0] for n in (1, 2, 4, 8)]
    outside = [paces("8x8", [dict.fromkeys(range(n), 8)], network())[0] for n in (2, 3, 4, 8)]
    assert outside[0] - inside[-1] > 5 * (inside[-1] - inside[0])
    assert outside[-1] - outside[0] < 0.25 * (outside[0] - inside[-1])


def test_contention_halves_communication_bound_jobs_and_barely_slows_compute_bound_ones() -> None:
    for compute_s, low, high in ((1e-5, 1.95, 2.0), (1.0, 1.0, 1.02)):
        profiles = [PROFILE | {"compute_s": compute_s}]
        alone, beside = (paces("2x8", gangs, network(), profiles=profiles)[0] for gangs in (TWO[:1], TWO))
        assert low < beside / alone <= high


def random_gangs(rng: np.random.Generator, machines: int, gpus: int) -> list[dict[int, int]]:
    free, gangs = np.full(machines, gpus), []
    for _ in range(rng.integers(3, 12)):
        some = rng.permutation(np.flatnonzero(free))[: rng.integers(2, 5)]
        if len(some) > 1:
            gangs.append({int(m): int(rng.integers(1, free[m] + 1)) for m in some})
            free[list(gangs[-1])] -= list(gangs[-1].values())
    return gangs


@pytest.mark.parametrize("seed", range(8))
def test_the_slowest_ring_never_gains_by_oversubscription_or_by_hashing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gangs = random_gangs(rng, 12, 8)
    slowest = []
    for omega in (1.0, 2.0, 4.0, 8.0):
        fields = dict(kind="leaf-spine", oversubscription=omega, uplinks=3)
        slowest.append(min(rates_GBps("12x8/3", gangs, network(**fields))))
        hashed = min(rates_GBps("12x8/3", gangs, network(**fields, ecmp="hashed", path_seed=seed)))
        assert hashed <= slowest[-1] * (1 + 1e-12)
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(slowest))


def test_overlap_dampens_short_transfers_and_sharpens_long_ones() -> None:
    def slowdown(compute_s: float, overlap: float) -> float:
        profiles = [PROFILE | {"compute_s": compute_s, "overlap": overlap}]
        alone, beside = (paces("2x8", gangs, network(), profiles=profiles)[0] for gangs in (TWO[:1], TWO))
        return float(beside / alone)

    assert slowdown(0.15, 2.0) < slowdown(0.15, 1.0)
    assert slowdown(0.01, 2.0) > slowdown(0.01, 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_one_to_one_with_ideal_paths_is_one_switch(seed: int) -> None:
    gangs = random_gangs(np.random.default_rng(seed), 12, 8)
    one = rates_GBps("12x8/3", gangs, network())
    np.testing.assert_allclose(rates_GBps("12x8/3", gangs, network(kind="leaf-spine")), one, rtol=1e-12)


# --- refusals


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (dict(model="max-min"), "contention.model: unknown value 'max-min': did you mean 'maxmin'"),
        (dict(duty="never"), "contention.duty"),
        (dict(ecmp="hash"), "contention.ecmp: unknown value 'hash': did you mean 'hashed'"),
        (dict(k_mode="clamped"), "contention.k_mode"),
        (dict(missing="zero"), "contention.missing"),
        (dict(xi1=1.1), "contention.xi1 is 1.1: give a number from 0 to 1"),
        (dict(xi1=float("nan")), "contention.xi1 is nan"),
        (dict(xi1=True), "contention.xi1 is True"),
        (dict(alpha=-0.1), "contention.alpha is -0.1"),
        (dict(alpha="0.2"), "contention.alpha is '0.2'"),
        (dict(alpha=float("inf")), "contention.alpha is inf"),
        (dict(shared_loss=1.0), "contention.shared_loss is 1: nothing would be left"),
        (dict(extra=1.0), "contention.extra is 1: nothing would be left"),
        (dict(extra=-0.1), "contention.extra is -0.1"),
        (dict(floor=2.0), "contention.floor is 2.0"),
        (dict(path_seed=-1), "contention.path_seed is -1: give a whole number from 0 to 2**31 - 1"),
        (dict(path_seed=2**31), "contention.path_seed is 2147483648"),
        (dict(path_seed=1.0), "contention.path_seed is 1.0"),
        (dict(model="table"), "contention.ratios: name the table's path for model 'table'"),
        (dict(ratios="pairs.csv"), "contention.ratios"),
    ],
)
def test_a_contention_that_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Contention(**fields)  # type: ignore[arg-type]
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (dict(model="topology"), "network.topology: give one with model 'topology'"),
        (dict(topology=TopologySpec()), "network.topology: give one with model 'topology', and with no other model"),
        (dict(contention=Contention()), "network.contention is 'maxmin', but gangs can share links only where there"),
        (dict(collective="rings"), "network.collective: unknown collective 'rings': did you mean 'ring'"),
        (dict(collective="best"), "network.collective has no effect without links"),
        (dict(reduction_GBps=0.0), "network.reduction_GBps"),
        (dict(reduction_GBps=float("nan")), "network.reduction_GBps"),
        (dict(reduction_GBps=1.0), "network.reduction_GBps has no effect without links"),
        (dict(machine_overhead_s=-1.0), "network.machine_overhead_s"),
        (dict(machine_overhead_s=1.0), "network.machine_overhead_s has no effect without links"),
        (dict(model="tiers", tier_slowdown=(1.0, 0.0, 1.0)), "network.tier_slowdown"),
        (dict(model="tiers", tier_slowdown=(1.0, 1.1)), "network.tier_slowdown"),
        (dict(bandwidth_GBps=(1.0, 2.0, 3.0)), "an outer tier is faster than an inner one"),
    ],
)
def test_a_network_that_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Network(**fields)  # type: ignore[arg-type]
    assert complaint in str(error.value)


def test_under_every_contention_model_gangs_are_no_faster_than_alone() -> None:
    slower = set()
    for model in CONTENTION_MODELS:
        if model != "table":  # which needs a file
            together, [alone] = (paces("2x8", gangs, network(model)) for gangs in (TWO, TWO[:1]))
            assert (together >= alone * (1 - 1e-12)).all(), model
            if (together > 1.01 * alone).all():
                slower.add(model)
    assert {"maxmin", "kway"} <= slower


def test_questions_about_jobs_that_have_not_arrived_are_refused() -> None:
    simulation: Simulation = started(*instance_of("2x8", TWO[:1], network()))
    view = simulation.view_for(AtOnce([])).network
    for row in (-1, 1):
        with pytest.raises(GpuschedError, match=r"must lie in 0\.\.0"):
            view.iteration_s(np.array([row]))


def test_a_profile_may_have_a_collective_of_its_own() -> None:
    """Two profiles that differ in name only: each takes as long as if all gangs used its collective."""
    rows = [
        dict(name=name, batch=1, gradient_bytes=1e8, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=0.05)
        for name in ("flat", "layered")
    ]
    workload = Workload.from_columns(
        [0.0, 1e6], [16, 16], iterations=[10.0, 10.0], profiles=Profiles.from_rows(rows), profile=[0, 1]
    )
    topology = TopologySpec("single-switch")

    def finish_s(network: Network) -> list[float]:
        log = simulate(Instance(Cluster.parse("2x8"), workload, network), make_scheduler("fifo"))
        return log.events["time_s"][log.events["kind"] == COMPLETE].tolist()

    ring, layered = (finish_s(Network("topology", topology=topology, collective=c)) for c in ("ring", "hierarchical"))
    mixed = finish_s(Network("topology", topology=topology, profile_collectives=(("layered", "hierarchical"),)))
    assert mixed == [ring[0], layered[1]]
    assert ring[1] != layered[1]
    with pytest.raises(ScenarioError, match="profile_collectives: unknown profile 'layred'"):
        finish_s(Network("topology", topology=topology, profile_collectives=(("layred", "ring"),)))
    with pytest.raises(ScenarioError, match="profile_collectives, 'flat': unknown collective 'rings'"):
        Network("topology", topology=topology, profile_collectives=(("flat", "rings"),))


@pytest.mark.parametrize("slot_s", [0.0, 1.0])
def test_a_scheduler_sees_ends_at_the_rates_of_this_instant(slot_s: float) -> None:
    """When one of two gangs on the same machines ends, the view already shows the other's end as a gang alone."""
    instance, scheduler = instance_of("2x8", [{0: 4, 1: 4}] * 2, network(), iterations=[500.0, 1000.0], slot_s=slot_s)
    simulation = Simulation(instance)
    view = ClairvoyantView(simulation)
    scheduler.reset(view)
    simulation.advance()
    for decision in scheduler.decide(view):
        simulation.apply(decision)
    contended = view.end_s(np.array([1]))[0]
    simulation.advance()  # to the end of the first gang
    assert view.finished.tolist() == [0]
    alone = view.end_s(np.array([1]))[0]
    assert alone < contended
    simulation.advance()
    assert simulation.now_s == pytest.approx(alone, rel=1e-12)


def test_tiers_stretch_the_whole_iteration() -> None:
    """Themis: 80 s of work on one GPU take 10, 11 or 13 s on eight GPUs, wherever other gangs are."""
    profile = {**PROFILE, "compute_s": 10.0}
    places = [{0: 8}, {1: 4, 2: 4}, {2: 4, 3: 4}, {4: 4, 5: 4}]  # a machine, a rack, two racks, a rack
    instance, scheduler = instance_of(
        "6x8/3", places, network("tiers", "leaf-spine"), iterations=1.0, profiles=(profile,)
    )
    log = simulate(instance, scheduler)
    validate(instance, log)
    ends = log.events[log.events["kind"] == COMPLETE]
    assert dict(zip(ends["job"].tolist(), ends["time_s"].tolist(), strict=True)) == {0: 10.0, 1: 11.0, 2: 13.0, 3: 11.0}
