"""Efficiency of Dally's models by shape: the closed form, ASTRA-sim's rows, the jobs, the generator, the scenario."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import TRACES, here

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import TraceError, WorkloadError
from gpusched_env.metrics import validate
from gpusched_env.network import Network
from gpusched_env.network.dimensions import reachable_shapes
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.traces import assign_profiles, generate_workload, read_workload
from gpusched_env.traces.generators.dally_jobs import DALLY_MODELS
from gpusched_env.traces.profile_tables import EfficiencyTable, load_efficiency
from gpusched_env.traces.profile_tables.efficiency import EFFICIENCY_RULES, ShapedModel
from studies.profile_tables.dally import (
    GANGS,
    LARGEST,
    MODELS,
    dally_table,
    model_layers,
    simulated_efficiencies,
    table_shapes,
)
from studies.profile_tables.layer_efficiency import (
    DIMENSION_LINKS,
    FULLY_CONNECTED,
    RING,
    SWITCH,
    DimensionLinks,
    Layers,
    all_reduce_ns,
)  # fmt: skip
from studies.published_tables import read_table

FOLDER = TRACES / "dally"
FILES = {True: "sense_500jobs_0start0arrival-withBert", False: "sense_500jobs_poisson_1proc-week"}
NVSWITCH = DIMENSION_LINKS["nvswitch"]
RNG = np.random.default_rng(0)


def layers(*rows: tuple[float, float, float, float, float]) -> Layers:
    return Layers(*np.array(rows, float).T)


TWO = layers((1000, 2000, 1000, 1e6, 0), (1000, 2000, 1000, 4e6, 0))


def test_the_closed_form_by_hand() -> None:
    """The last layer's 4 MB are ready at 3,000 ns and take 15,000 ns; the first layer's 1 MB take 11,250 ns."""
    shape = (1, 1, 2, 1)
    assert all_reduce_ns(NVSWITCH, shape, 4e6) == 15_000
    assert all_reduce_ns(NVSWITCH, shape, 1e6) == 11_250
    assert TWO.compute_ns == 6_000
    assert TWO.compute_ns / TWO.efficiency(NVSWITCH, shape) == pytest.approx(29_250)
    assert round(TWO.efficiency(NVSWITCH, shape), 6) == 0.205128


@pytest.mark.parametrize(
    ("kind", "units", "links"),
    [(RING, 2, 4), (RING, 3, 4), (RING, 4, 4), (RING, 7, 8), (SWITCH, 2, 2), (SWITCH, 8, 8), (FULLY_CONNECTED, 2, 2),
     (FULLY_CONNECTED, 3, 1), (FULLY_CONNECTED, 8, 1)],
)  # fmt: skip
def test_links_that_a_collective_uses_at_once(kind: str, units: int, links: int) -> None:
    """The time without latency is 2 (n - 1)/n bytes over the number of links; latency counts 2 (n - 1) steps, of 2 hops
    each through a switch."""
    assert DimensionLinks(kind, 10.0, 0.0).all_reduce_ns(units, 6e6) * 10.0 * links == pytest.approx(
        2 * (units - 1) / units * 6e6
    )
    hops = 2 if kind == SWITCH else 1
    assert DimensionLinks(kind, 10.0, 7.0).all_reduce_ns(units, 0.0) == 2 * (units - 1) * hops * 7.0


@given(data=st.data(), shape=st.tuples(*[st.integers(1, 5)] * 4))
def test_properties_of_the_closed_form_for_any_layers(data: st.DataObject, shape: tuple[int, int, int, int]) -> None:
    """A single GPU computes all the time; no pass is shorter than its computation or than the sum of its transfers."""
    times = st.tuples(st.floats(1, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e8), st.just(0.0))
    model = layers(*data.draw(st.lists(times, min_size=1, max_size=5)))
    efficiency = model.efficiency(NVSWITCH, shape)
    sending = sum(all_reduce_ns(NVSWITCH, shape, size) for size in model.gradient_bytes.tolist())
    whole = model.compute_ns / efficiency
    assert model.efficiency(NVSWITCH, (1, 1, 1, 1)) == pytest.approx(1.0)
    assert max(model.compute_ns, sending) * (1 - 1e-9) <= whole <= (model.compute_ns + sending) * (1 + 1e-9)


@here
def test_the_closed_form_against_every_row_of_astra_sim() -> None:
    """The table's last column is the closed form; its error of 1/e: median 0.4 %, at most 27 %."""
    table, _ = read_table(f"dally-efficiency:{FOLDER / 'astra_efficiency.csv'}")
    found = {name: model_layers(FOLDER, name) for name in MODELS}
    models = table["model"].tolist()
    formula = np.array([found[m].efficiency(NVSWITCH, s) for m, s in zip(models, table_shapes(table), strict=True)])
    assert len(formula) == 84
    np.testing.assert_allclose(formula, table["substitute_efficiency"], atol=5.01e-6)
    error = np.abs(table["efficiency"] / formula - 1)
    assert np.median(error) <= 0.0045
    assert error.max() <= 0.275
    np.testing.assert_allclose([found[m].compute_ns / 1e3 for m in models], table["compute_us"], atol=0.0501)


@here
def test_the_rows_of_astra_sim_win_wherever_there_is_one() -> None:
    rows = simulated_efficiencies(FOLDER, {name: model_layers(FOLDER, name) for name in MODELS})
    table = load_efficiency("dally")
    used = {key: value for key, value in rows.items() if key[1] in table.models[key[0]].efficiency["nvswitch"]}
    assert len(used) == 84
    for (model, shape), value in used.items():
        assert table.models[model].efficiency["nvswitch"][shape] == pytest.approx(value, rel=1e-5)


def test_the_table_has_every_shape_of_the_demands() -> None:
    table = load_efficiency("dally")
    assert set(table.models) == set(MODELS)
    for model in table.models.values():
        assert set(model.efficiency) == set(DIMENSION_LINKS)
        for shapes in model.efficiency.values():
            wanted = {shape for gang in GANGS for shape in reachable_shapes(LARGEST, gang)}
            assert set(shapes) == wanted
    demands = {gang for model in DALLY_MODELS.values() for gang in (*model.all_jobs, *model.gangs)}
    assert demands <= {1, *GANGS}


def test_efficiencies_on_the_authors_links() -> None:
    """Known efficiencies of six models on six placements, to the printed digits."""
    table = load_efficiency("dally")
    shapes = ((4, 1, 1, 1), (4, 2, 1, 1), (2, 2, 2, 1), (2, 4, 2, 1), (1, 2, 2, 2), (1, 2, 4, 4))
    printed = {
        "ResNet50": (0.890, 0.890, 0.890, 0.889, 0.669, 0.331),
        "VGG": (1.000, 1.000, 0.997, 0.996, 0.846, 0.389),
        "AlexNet": (1.000, 0.999, 0.989, 0.987, 0.450, 0.189),
        "BERT": (0.923, 0.921, 0.916, 0.914, 0.118, 0.042),
        "ResNet18": (0.999, 0.959, 0.487, 0.483, 0.0347, 0.0118),
        "MobileNetV3": (0.996, 0.737, 0.097, 0.097, 0.0051, 0.0017),
    }
    for name, values in printed.items():
        found = [table.models[name].efficiency["nvswitch"][shape] for shape in shapes]
        np.testing.assert_allclose(found, values, atol=5.1e-4)


@pytest.mark.parametrize("network", DIMENSION_LINKS)
def test_congested_links_never_help(network: str) -> None:
    """On placements across racks slower links between racks cost more."""
    model = load_efficiency("dally").models["VGG"]
    if network.startswith("congested"):
        for shape in ((1, 1, 1, 2), (1, 4, 2, 2), (1, 1, 1, 16)):
            assert model.efficiency[network][shape] < model.efficiency["nvswitch"][shape] / 3
    else:
        assert model.efficiency[network][1, 1, 1, 2] == pytest.approx(
            model.efficiency["nvswitch"][1, 1, 1, 2], rel=0.02
        )


# --- jobs


def some_jobs(**attributes: list[object]) -> Workload:
    columns = {name: np.array(values) for name, values in attributes.items()}
    return Workload.from_columns([0.0, 1.0, 2.0], [4, 1, 8], [30.0, 40.0, 50.0], attributes=columns)


def test_iterations_of_a_gang_are_those_of_each_of_its_gpus() -> None:
    """N x tpi / g seconds of compute, divided by the efficiency of the best placement."""
    told = some_jobs(
        model=["VGG", "BERT", "VGG"], total_iterations=[4000, 500, 16000], time_per_iteration_s=[0.5, 0.25, 0.5]
    )
    given = assign_profiles(told, "dally", RNG)
    assert given.jobs["iterations"].tolist() == [1000, 500, 2000]
    assert given.profiles.rows["name"].tolist() == ["BERT, 250000 us", "VGG, 500000 us"]
    instance = Instance(Cluster.parse("2x8s2"), given, Network("dimensions"), Semantics(step_iterations=300))
    table = load_efficiency("dally").models["VGG"].efficiency["nvswitch"]
    assert instance.iterations.tolist() == [1200, 600, 2100]
    expected = [1200 * 0.5 / table[4, 1, 1, 1], 600 * 0.25, 2100 * 0.5 / table[4, 2, 1, 1]]
    np.testing.assert_allclose(instance.ideal_s, expected, rtol=1e-12)


def test_jobs_with_fewer_fields_keep_their_work() -> None:
    given = assign_profiles(some_jobs(model=["VGG", "no such", "BERT"]), "dally", RNG, ("V100", "T4"))
    assert given.jobs["duration_s"].tolist() == [30, 40, 50]
    assert given.profiles.gpu_types == ("V100", "T4")
    names = given.profiles.rows["name"][given.jobs["profile"]].tolist()
    assert [name.split(",")[0] for name in (names[0], names[2])] == ["VGG", "BERT"]
    assert names[0] == "VGG, 3631.739 us"


@pytest.mark.parametrize("rule", EFFICIENCY_RULES)
def test_every_network_prices_the_same_jobs(rule: str) -> None:
    jobs = generate_workload("dally", 1, 60)
    given = assign_profiles(jobs, rule, RNG)
    scenario = get_scenario("dally-authors-v1")
    instance = Instance(scenario.cluster, given, scenario.network, scenario.semantics)
    assert (given.jobs["iterations"] * given.jobs["gpus"]).tolist() == pytest.approx(
        jobs.attributes["total_iterations"].tolist()
    )
    assert (instance.ideal_s >= jobs.jobs["duration_s"] * (1 - 1e-12)).all()


def test_tables_are_checked() -> None:
    model = ShapedModel(1.0, 0.0, 0.0, {"n": {(2, 1, 1, 1): 0.5}})
    table = EfficiencyTable("t", "", "", "", {"m": model})
    with pytest.raises(WorkloadError, match="unknown network"):
        table.for_jobs("other", ["m"], [1.0], [2])
    with pytest.raises(WorkloadError, match="unknown model"):
        table.for_jobs("n", ["other"], [1.0], [2])
    with pytest.raises(WorkloadError, match="out of range"):
        ShapedModel(1.0, 0.0, 0.0, {"n": {(2, 1, 1, 1): 1.5}})
    with pytest.raises(WorkloadError, match="no model"):
        EfficiencyTable("t", "", "", "", {})


def test_layer_files_that_are_absent_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="alexnet_B512"):
        dally_table(tmp_path)


# --- the generator


def test_the_generator_repeats_and_takes_the_limits_that_it_is_given() -> None:
    one, two = (generate_workload("dally", 7, 300) for _ in range(2))
    assert one.fingerprint() == two.fingerprint()
    assert one.jobs["gpus"].min() == 2
    assert generate_workload("dally", 7, 300, 8, single_gpus=True).jobs["gpus"].max() == 8
    assert (generate_workload("dally", 7, 50, mean_gap_s=0.0).jobs["arrival_s"] == 0).all()
    with pytest.raises(WorkloadError, match="no gang of at most 1"):
        generate_workload("dally", 0, 5, 1)
    with pytest.raises(WorkloadError, match="mean_gap_s"):
        generate_workload("dally", 0, 5, mean_gap_s=-1.0)
    work = one.attributes["total_iterations"] * one.attributes["time_per_iteration_s"]
    np.testing.assert_allclose(one.jobs["duration_s"] * one.jobs["gpus"], work)


@here
@pytest.mark.parametrize("single", FILES)
def test_drawn_jobs_are_like_those_of_the_files(single: bool) -> None:
    """20,000 drawn jobs against a file: shares of demands and models, times on one GPU by model, iteration times."""
    log = read_workload(f"dally:{FOLDER / 'jobs' / (FILES[single] + '.csv.gz')}")
    drawn = generate_workload("dally", 0, 20_000, single_gpus=single)
    pairs = [list(zip(w.attributes["model"].tolist(), w.jobs["gpus"].tolist(), strict=True)) for w in (log, drawn)]
    for pair in set(pairs[0]) | set(pairs[1]):
        share, found = (jobs.count(pair) / len(jobs) for jobs in pairs)
        assert found == pytest.approx(share, abs=4 * math.sqrt(share / 20_000) + 1e-9)
    work = [w.jobs["duration_s"] * w.jobs["gpus"] for w in (log, drawn)]
    assert work[1].mean() == pytest.approx(work[0].mean(), rel=0.08)
    for model, kind in DALLY_MODELS.items():
        of = [w.attributes["model"] == model for w in (log, drawn)]
        if of[0].sum() < 25:
            continue
        told, found = (np.quantile(w[mask], [0.1, 0.25, 0.5, 0.75, 0.9]) for w, mask in zip(work, of, strict=True))
        assert np.abs(np.log(found / told)).max() < 0.32, model
        assert np.abs(np.log(found[2] / told[2])) < 0.25, model
        if single:
            seconds = log.attributes["time_per_iteration_s"][of[0]]
            for each_s, batch, count in kind.iterations:
                same = np.isclose(seconds, each_s, rtol=1e-5) & (log.attributes["batch_size"][of[0]] == batch)
                assert same.sum() == count
    if not single:
        gaps = [np.diff(np.sort(w.jobs["arrival_s"])) for w in (log, drawn)]
        assert gaps[1].mean() == pytest.approx(gaps[0].mean(), rel=0.03)
        assert gaps[1].std() / gaps[1].mean() == pytest.approx(1.0, abs=0.05)


# --- the scenario


def test_the_scenario_of_the_authors() -> None:
    scenario = get_scenario("dally-authors-v1")
    assert scenario.cluster.describe() == "256 GPUs: 32 nodes x 8 V100 in 2 slots in 4 racks"
    instance = scenario.instance(0)
    step = scenario.semantics.step_iterations
    assert (instance.iterations % step == 0).all()
    slowest = max(seconds for model in DALLY_MODELS.values() for seconds, *_ in model.iterations)
    assert step * slowest <= 3600 / 20  # a step is at most a twentieth of a lease
    log = simulate(instance, make_scheduler("tiresias"))
    validate(instance, log)


@here
@pytest.mark.parametrize("file", sorted(path.name for path in (FOLDER / "jobs").glob("*.gz")))
def test_the_authors_jobs_play_in_their_scenario(file: str) -> None:
    scenario = get_scenario("dally-authors-v1").with_workload(f"dally:{FOLDER / 'jobs' / file}")
    instance = scenario.instance(0)
    attributes, jobs = instance.workload.attributes, instance.workload.jobs
    step = scenario.semantics.step_iterations
    steps = -(-attributes["total_iterations"] // (step * jobs["gpus"]))
    assert (instance.iterations == steps * step).all()
    tightest = instance.compute_s[instance.job_class, 0, 0]
    np.testing.assert_allclose(tightest, attributes["time_per_iteration_s"], rtol=0, atol=0)
    log = simulate(instance, make_scheduler("srtf"))
    validate(instance, log)


def test_work_is_conserved_over_many_steps() -> None:
    """A thousand steps of a month each, at a clock of two years:
    the sum of their lengths is rounded a thousand times.
    """
    scenario = get_scenario("dally-authors-v1")
    spec = dataclasses.replace(scenario.workload, parameters={"mean_gap_s": 0.0}, profiles="dally-congested-50")
    instance = scenario.replace(workload=spec).instance(1)
    log = simulate(instance, make_scheduler("fifo"))
    assert log.events["time_s"].max() > 6e7
    validate(instance, log)
