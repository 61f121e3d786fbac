"""Jobs whose run times were measured elsewhere do the same work on every network and cluster."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.errors import ScenarioError, WorkloadError
from gpusched_env.evaluation import evaluate
from gpusched_env.network import NETWORK_PRESETS, Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.partitions import Partition, Partitions
from gpusched_env.scenarios import Scenario, WorkloadSpec, get_scenario, load_scenario, save_scenario
from gpusched_env.scenarios.assumed import IDEAL, SAME
from gpusched_env.traces.profiles import V100_TABLE

SIXTEEN = "job_id,arrival_s,duration_s,num_gpus\n" + "".join(f"{job},0,1000,16\n" for job in range(4))
NETWORKS = "h100-8x400", "dgxv-100g", "pcie4-10g"
ALL = f"assumed: {IDEAL.format('this network and cluster', 'networks, shapes or GPU types')}"
SHAPES = f"assumed: {IDEAL.format('this cluster', 'shapes or GPU types')}"
# Seed of the report on which the four jobs draw these models
SEED, MODELS = 200_000, ["resnet152", "alexnet", "resnet152", "resnet152"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return four jobs of 16 GPUs and 1,000 s."""
    (tmp_path / "four.csv").write_text(SIXTEEN, encoding="utf-8")
    return tmp_path / "four.csv"


def on(log: Path, network: str, cluster: str = "8x8", **fields: object) -> Scenario:
    """Return the jobs of a log on a network."""
    spec = WorkloadSpec(f"csv:{log}", **{"profiles": "mix", **fields})
    groups, wires = Cluster.parse(cluster).groups, get_scenario("philly-64-v1").network
    return Scenario("log", "", groups, spec, wires.with_topology(NETWORK_PRESETS[network].topology))


def iteration_s(model: str, network: str, gpus: int, per_node: int) -> float:
    """Return the seconds of an iteration of a ring below one switch, worked out by hand."""
    (gradient, compute_s), rates = (
        next((row[2] * 1e6, row[5]) for row in V100_TABLE if row[0] == model),
        NETWORK_PRESETS[network].topology,
    )
    machines = -(-gpus // per_node)
    rate = rates.gpu_GBps if machines == 1 else min(rates.gpu_GBps, rates.nic_GBps)
    steps_s = 2 * (gpus - machines) * rates.gpu_latency_s + (2 * (machines - 1) * rates.nic_latency_s)
    return compute_s + steps_s + 2 * (gpus - 1) / gpus * gradient / (rate * 1e9)


def test_a_log_takes_longer_on_slower_links_if_its_times_were_measured(log: Path) -> None:
    """By hand: run time x iteration there / iteration on the links where it was measured; each job alone."""
    for network in NETWORKS:
        (today,) = evaluate(on(log, network), ["fifo"], [SEED])
        (fixed,) = evaluate(on(log, network, measured_on=NETWORKS[0]), ["fifo"], [SEED])
        expected = [iteration_s(one, network, 16, 8) / iteration_s(one, NETWORKS[0], 16, 8) for one in MODELS]
        assert today.metrics["mean_jct_s"] == pytest.approx(1000)
        assert fixed.metrics["mean_jct_s"] == pytest.approx(1000 * np.mean(expected))
        assert fixed.metrics["makespan_s"] == pytest.approx(1000 * max(expected))
        assert fixed.bounds["mean_jct_s"] == pytest.approx(fixed.metrics["mean_jct_s"])


def test_jobs_have_the_same_iterations_on_all_networks_and_clusters(log: Path) -> None:
    measured = "dgxv-100g/16x8"
    found = [
        on(log, network, cluster, measured_on=measured).instance(SEED)
        for network in NETWORKS
        for cluster in ("8x8", "16x4/4", "2x32")
    ]
    names = found[0].workload.profiles.rows["name"][found[0].workload.jobs["profile"]]
    assert names.tolist() == MODELS
    by_hand = [1000 / iteration_s(name, "dgxv-100g", 16, 8) for name in MODELS]
    for instance in found:
        assert instance.iterations == pytest.approx(by_hand, rel=1e-12)
        assert (instance.iterations == found[0].iterations).all()
    assert len({tuple(instance.ideal_s) for instance in found}) > 3
    there = on(log, "dgxv-100g", "16x8", measured_on=measured).instance(SEED)
    assert there.ideal_s == pytest.approx([1000] * 4, rel=1e-12)


def test_a_type_of_gpu_that_the_cluster_lacks_may_be_the_one_of_the_log(log: Path) -> None:
    """Gavel's measured models are slower on a K80: a log of V100 takes as much longer there, in one machine."""
    log.write_text(SIXTEEN.replace(",16", ",2"), encoding="utf-8")
    where = "dgxv-100g/4x8@V100,4x8@K80"
    fields = {"profiles": "gavel", "measured_on": where}
    fast, slow = (on(log, "dgxv-100g", f"4x8@{name}", **fields).instance(3) for name in ("V100", "K80"))
    assert (fast.iterations == slow.iterations).all()
    assert fast.ideal_s == pytest.approx([1000] * 4)
    assert (slow.ideal_s > 1500).all()
    without = on(log, "dgxv-100g", "4x8@K80", profiles="gavel").instance(3)
    assert without.ideal_s.tolist() == [1000] * 4


def test_generators_and_a_network_without_links_have_a_place_of_measurement_too() -> None:
    plain = get_scenario("philly-64-v1")
    fixed = plain.replace(workload=dataclasses.replace(plain.workload, measured_on="h100-8x400"))
    here, there = plain.instance(5), fixed.instance(5)
    assert (here.workload.jobs["arrival_s"] == there.workload.jobs["arrival_s"]).all()
    gang = here.workload.jobs["gpus"] > 1
    assert gang.any()
    assert (there.ideal_s >= here.ideal_s * (1 - 1e-12)).all()
    assert (there.ideal_s[gang] > here.ideal_s[gang]).any()


def test_demands_of_jobs_hold_where_they_were_measured(log: Path) -> None:
    """Jobs on two nodes each, of types and partitions: measured on the network that is played, nothing changes."""
    head, *rows = SIXTEEN.replace(",16", ",8").splitlines()
    told = ",nodes,gpu_types,partition"
    lines = [
        f"{row},{2 if at % 2 else 1},{'K80' if at == 2 else ''},{'old' if at == 3 else 'all'}"
        for at, row in enumerate(rows)
    ]
    log.write_text("\n".join([head + told, *lines]) + "\n", encoding="utf-8")
    rules = Partitions((Partition("all"), Partition("old", nodes="4-7")), by="partition")
    plain, fixed = (
        on(log, "pcie4-10g", "4x8@V100,4x8@K80", profiles="gavel", measured_on=where).replace(partitions=rules)
        for where in (None, "pcie4-10g")
    )
    iterations = [one.instance(SEED).iterations for one in (plain, fixed)]
    assert iterations[1] == pytest.approx(iterations[0], rel=1e-12)
    elsewhere = on(log, "pcie4-10g", "4x8@V100,4x8@K80", profiles="gavel", measured_on="dgxv-100g/8x8@V100")
    assert (elsewhere.instance(SEED).iterations[2:] > iterations[0][2:]).all()


def test_deadlines_and_arrivals_stay_where_they_were(log: Path) -> None:
    """They are set before by the measured run times, so they do not depend on the network that is played."""
    log.write_text(SIXTEEN.replace("3,0,", "3,500,"), encoding="utf-8")
    fields = {"measured_on": NETWORKS[0], "load": 0.5, "deadlines": {"least": 1.0, "most": 1.0}}
    columns = [on(log, network, **fields).instance(SEED).workload for network in NETWORKS]
    for one in columns:
        assert (one.jobs["arrival_s"] == columns[0].jobs["arrival_s"]).all()
        assert (one.deadline_s == columns[0].deadline_s).all()


def test_the_field_is_written_only_if_it_is_used(log: Path, tmp_path: Path) -> None:
    plain, fixed = on(log, "dgxv-100g"), on(log, "dgxv-100g", measured_on="dgxv-100g/16x8/4@V100")
    assert "measured_on" not in plain.as_dict()["workload"]
    assert fixed.fingerprint() != plain.fingerprint()
    save_scenario(fixed, tmp_path / "fixed.json")
    assert load_scenario(tmp_path / "fixed.json") == fixed
    (tmp_path / "fixed.toml").write_text(
        f"""name = "t"
groups = [{{ count = 8, gpus = 8 }}]
workload = {{ source = "csv:{log}", measured_on = "h100-8x400" }}
network = {{ model = "topology", topology = {{ preset = "pcie4-10g" }} }}
""",
        encoding="utf-8",
    )
    (result,) = evaluate(load_scenario(tmp_path / "fixed.toml"), ["fifo"], [SEED])
    assert result.metrics["mean_jct_s"] == pytest.approx(1947, abs=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dgxv-100", "unknown preset of networks 'dgxv-100'.*dgxv-100g"),
        ("16x8@V100", "unknown preset of networks '16x8@V100'"),
        ("dgxv-100g/16by8", "measured_on 'dgxv-100g/16by8': cluster '16by8': write NODESxGPUS"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        WorkloadSpec("synthetic:philly", measured_on=text)


def test_what_cannot_have_been_measured_is_refused(log: Path) -> None:
    with pytest.raises(WorkloadError, match=r"measured_on: .* demands 16 GPUs but the cluster has 8"):
        on(log, "dgxv-100g", measured_on="dgxv-100g/1x8").instance(SEED)
    with pytest.raises(WorkloadError, match="known for GPU type V100 only, not for 'A100'"):
        on(log, "dgxv-100g", measured_on="dgxv-100g/4x8@A100").instance(SEED)
    by_iterations = get_scenario("gavel-continuous-v1")
    spec = dataclasses.replace(by_iterations.workload, measured_on="dgxv-100g")
    with pytest.raises(WorkloadError, match="are given by iterations, which are the same on every network"):
        by_iterations.replace(workload=spec).instance(0)
    family = get_scenario("family-v1")
    with pytest.raises(ScenarioError, match=r"workload\.measured_on: the variation draws"):
        family.replace(workload=dataclasses.replace(family.workload, measured_on="dgxv-100g"))


def test_results_say_what_is_assumed_of_the_run_times(log: Path) -> None:
    def told(scenario: Scenario) -> dict[str, int]:
        return evaluate(scenario, ["fifo"], [SEED])[0].caveats

    assert told(on(log, "dgxv-100g")) == {ALL: 4}
    assert told(on(log, "dgxv-100g", measured_on="dgxv-100g")) == {SHAPES: 4}
    assert told(on(log, "dgxv-100g", measured_on="dgxv-100g/16x8")) == {}
    assert told(on(log, "dgxv-100g", profiles="unit")) == {f"assumed: {SAME}": 4}
    types = on(log, "dgxv-100g", "8x8@T4,8x8@A100", profiles="unit").replace(network=Network())
    assert told(types) == {f"assumed: {SAME}": 4}
    assert told(types.with_cluster(Cluster.parse("8x8"))) == {}
    small = get_scenario("philly-64-v1")
    small = small.replace(workload=dataclasses.replace(small.workload, jobs=12), tracked_window=None)
    assert told(small) == {}
    moved = small.replace(network=small.network.with_topology(NETWORK_PRESETS["oversub4"].topology))
    assert told(moved) == told(small.with_cluster(Cluster.parse("2x32"))) == {ALL: 12}
    assert told(moved.replace(name="my own")) == {}


def test_commands_print_once_that_networks_cannot_be_compared(log: Path, tmp_path: Path) -> None:
    def play(*more: str) -> str:
        command = ["compare", "--workload", f"csv:{log}", "--cluster", "8x8", "--profiles", "mix", "--schedulers"]
        result = CliRunner().invoke(app, [*command, "fifo,sjf", "--seeds", "2", *more])
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.split())

    assert play("--network", "pcie4-10g").count(ALL) == 1
    output = tmp_path / "out.json"
    shown = play("--network", "pcie4-10g", "--measured-on", "h100-8x400/8x8", "--output", str(output))
    assert "assumed" not in shown
    assert "+ pcie4-10g" in shown
    assert "measured on h100-8x400/8x8" in shown
    results = json.loads(output.read_text(encoding="utf-8"))["results"]
    (first, *_) = [one["metrics"]["mean_jct_s"] for one in results if one["seed"] == SEED]
    assert first == pytest.approx(1947, abs=1)


def test_an_exported_run_has_the_run_times_of_the_network_that_was_played(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.csv"
    command = ["traces", "export", "--format", "csv", "--workload", f"csv:{log}", "--cluster", "8x8"]
    more = ["--profiles", "mix", "--network", "pcie4-10g", "--measured-on", "h100-8x400", "--output", str(out)]
    result = CliRunner().invoke(app, [*command, *more])
    assert result.exit_code == 0, result.output
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    (column,) = [name for name in rows[0] if "duration" in name]
    expected = [1000 * iteration_s(one, "pcie4-10g", 16, 8) / iteration_s(one, NETWORKS[0], 16, 8) for one in MODELS]
    assert [float(row[column]) for row in rows] == pytest.approx(expected, rel=1e-6)


def test_a_name_that_only_begins_as_a_registered_one_is_ones_own() -> None:
    small = get_scenario("philly-64-v1").with_cluster(Cluster.parse("2x32"))
    small = small.replace(workload=dataclasses.replace(small.workload, jobs=12), tracked_window=None)
    assert evaluate(small, ["fifo"], [SEED])[0].caveats == {ALL: 12}
    for name in ("philly-64-v1: ours", "dally-poisson-v1:top=ours", "tiny-v1:jobs=1, links x 0.25", "tiny: ours"):
        assert evaluate(small.replace(name=name), ["fifo"], [SEED])[0].caveats == {}
