"""The network-sensitive scenarios: names with parameters, a network that matters, jobs for which waiting pays."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import play
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.errors import ScenarioError
from gpusched_env.metrics import job_times, summarise
from gpusched_env.network import build_topology
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import FAMILIES, get_scenario, load_scenario, save_scenario
from gpusched_env.scenarios.dally import (
    DEMAND,
    EARLY_DEMAND,
    LATE_DEMAND,
    MEAN_DURATION_S,
)
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.simulator import Simulation, Start
from gpusched_env.simulator.network_view import NetworkView
from gpusched_env.support.files import file_name
from gpusched_env.traces.profiles import mix_profiles

DALLY = [f"dally-{name}-v1" for name in ("batch", "poisson", "trace", "drift")]
BIG = "dally-poisson-v1:gpus=512,oversubscription=8,top=congested"


# --- names with parameters


@pytest.mark.parametrize("name", DALLY)
def test_a_name_alone_has_all_defaults_whichever_way_they_are_written(name: str) -> None:
    plain = get_scenario(name)
    assert plain.name == name
    for text in (":gpus=256", ":oversubscription=4,top=normal", ":top=normal,gpus=256.0,oversubscription=4.0", ":"):
        assert get_scenario(name + text) == plain


@pytest.mark.parametrize("name", DALLY)
def test_parameters_stand_in_the_name_in_one_order_and_count_in_the_fingerprint(name: str) -> None:
    texts = ["gpus=512", "oversubscription=1", "oversubscription=2", "oversubscription=8", "top=congested", "jobs=50"]
    texts += ["load=0.6"] if name != "dally-batch-v1" else []
    prints = {get_scenario(f"{name}:{text}").fingerprint() for text in texts}
    assert len(prints | {get_scenario(name).fingerprint()}) == len(texts) + 1
    turned = get_scenario(f"{name}:top=congested, oversubscription=8.0,gpus=512")
    assert turned.name == f"{name}:gpus=512,oversubscription=8,top=congested"
    assert turned == get_scenario(turned.name)


def test_a_scenario_with_parameters_round_trips(tmp_path: Path) -> None:
    scenario = get_scenario(BIG)
    save_scenario(scenario, tmp_path / "s.json")
    again = load_scenario(tmp_path / "s.json")
    assert again == scenario
    assert again.fingerprint() == scenario.fingerprint()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dally-poisson-v1:gpu=512", r"unknown parameter 'gpu': did you mean 'gpus'\? known: gpus, jobs, load"),
        ("dally-poisson-v1:gpus=300", r"gpus is '300'; give 256 or 512"),
        ("dally-poisson-v1:top=congestd", r"top is 'congestd'; give normal or congested"),
        ("dally-poisson-v1:load=high", r"load is 'high'; give a number from 0.01 to 10"),
        ("dally-poisson-v1:load=nan", r"load is 'nan'; give a number"),
        ("dally-poisson-v1:oversubscription=0.5", r"oversubscription is '0.5'; give a number from 1 to 64"),
        ("dally-poisson-v1:jobs=2.5", r"jobs is '2.5'; give a whole number from 2 to"),
        ("dally-poisson-v1:load=0.7,load=0.8", r"load is given twice"),
        ("dally-poisson-v1:512", r"'512' is not of the form parameter=value"),
        ("dally-poisson-v1:gpus=512,", r"'' is not of the form parameter=value"),
        ("dally-batch-v1:load=0.7", r"unknown parameter 'load'"),
        ("tiny-v1:gpus=8", r"'tiny-v1' takes no parameters; those that do: dally-batch-v1, dally-poisson-v1"),
        ("dally-poison-v0:gpus=512", r"unknown scenario 'dally-poison-v0': did you mean 'dally-poisson-v1'"),
    ],
)
def test_errors_name_parameter_and_values(name: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        get_scenario(name)


def test_a_family_takes_values_of_python_and_fills_in_defaults() -> None:
    given: list[dict[str, Any]] = []

    def build(**values: Any) -> Any:
        given.append(values)
        return get_scenario("tiny-v1")

    parameters = (
        Parameter("size", 4, "how large", least=1, most=8, whole=True),
        Parameter("share", None, "how much", least=0, most=1),
        Parameter("kind", "a", "which", values=("a", "b")),
    )
    family = ScenarioFamily("mine-v0", build, parameters)
    assert family.scenario("share=0.25", size=8).name == "mine-v0:size=8,share=0.25"
    assert family.scenario().name == "mine-v0"
    assert given == [{"size": 8, "share": 0.25, "kind": "a"}, {"size": 4, "share": None, "kind": "a"}]
    for wrong in ({"size": True}, {"size": 9}, {"kind": "c"}):
        with pytest.raises(ScenarioError, match="give"):
            family.scenario(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="size is given twice"):
        family.scenario("size=2", size=3)


def test_the_command_line_and_gymnasium_take_names_with_parameters(tmp_path: Path) -> None:
    name = "dally-poisson-v1:gpus=512,jobs=20"
    shown = CliRunner().invoke(app, ["scenarios", "show", name])
    assert json.loads(shown.stdout) == get_scenario(name).as_dict()
    for parameter in FAMILIES["dally-poisson-v1"].parameters:
        assert f"{parameter.name}: {parameter.meaning}; {parameter.allowed}" in shown.stderr
    assert CliRunner().invoke(app, ["scenarios", "show", "tiny-v1"]).stderr == ""
    output = tmp_path / "run.json"
    played = CliRunner().invoke(app, ["run", "--scenario", name, "--scheduler", "fifo", "--output", str(output)])
    assert (played.exit_code, f"fifo on {name} (" in played.stdout) == (0, True)
    assert f'"{name}"' in output.read_text()
    env = gym.make("gpusched_env:gpusched/NetworkSensitive-v0", scenario=name)
    assert env.unwrapped.scenario == get_scenario(name)  # type: ignore[attr-defined]


def test_files_named_after_scenarios_have_plain_names() -> None:
    assert file_name("philly-64-v1") == "philly-64-v1"
    assert file_name(get_scenario(BIG).name) == "dally-poisson-v1-gpus-512-oversubscription-8-top-congested"
    assert file_name("tiny-v1 + load 0.5") == "tiny-v1-+-load-0.5"


# --- the network


@pytest.mark.parametrize("oversubscription", [1, 2, 4, 8])
@pytest.mark.parametrize(("top", "factor"), [("normal", 1.0), ("congested", 5.0)])
@pytest.mark.parametrize(("gpus", "racks"), [(256, 4), (512, 8)])
def test_racks_are_eight_machines_of_eight_below_uplinks_of_their_share(
    gpus: int, racks: int, oversubscription: int, top: str, factor: float
) -> None:
    scenario = get_scenario(f"dally-batch-v1:gpus={gpus},oversubscription={oversubscription},top={top}")
    cluster = scenario.cluster
    assert (cluster.gpus, cluster.racks["nodes"].tolist()) == (gpus, [8] * racks)
    assert set(cluster.nodes["gpus"].tolist()) == {8}
    assert scenario.network.contention.model == "maxmin"
    assert (scenario.semantics.checkpoint_s, scenario.semantics.restore_s) == (30.0, 30.0)
    assert scenario.network.topology is not None
    links = build_topology(scenario.network.topology, cluster).links
    uplinks = links[links["tier"] == links["tier"].max()]
    np.testing.assert_allclose(uplinks["capacity"] * uplinks["members"], 8 * 12e9 / oversubscription / factor)
    assert len(uplinks) == racks


ONE_MACHINE = [list(range(8))]
IN_A_RACK = [[*range(4), *range(8, 12)]]
ACROSS_RACKS = [[*range(first, first + 4), *range(64 + first, 64 + first + 4)] for first in range(0, 64, 8)]


def iteration_s(parameters: str, gangs: list[list[int]]) -> np.ndarray:
    """Seconds of an iteration of the first gang while all gangs run, for each of the nine networks."""
    base, table = get_scenario(f"dally-poisson-v1:{parameters}"), mix_profiles()
    found = []
    for row in range(len(table.rows)):
        count = len(gangs)
        sizes = [len(gang) for gang in gangs]
        jobs = Workload.from_columns(
            np.zeros(count), sizes, np.full(count, 1e6), profiles=table, profile=np.full(count, row)
        )
        simulation = Simulation(Instance(base.cluster, jobs, base.network, base.semantics))
        simulation.advance()
        for job, gang in enumerate(gangs):
            assert simulation.apply(Start(job, gpus=tuple(gang))) == ""
        found.append(float(NetworkView(simulation).iteration_s(np.array([0]))[0]))
    return np.array(found)


@pytest.mark.parametrize(
    ("parameters", "gangs", "rate_GBps"),
    [
        ("", ONE_MACHINE, 120.0),
        ("", IN_A_RACK, 12.0),
        ("oversubscription=8", ACROSS_RACKS[:1], 12.0),  # the port: uplinks are equally fast until gangs share them
        ("oversubscription=1", ACROSS_RACKS, 12.0),
        ("oversubscription=4", ACROSS_RACKS, 3.0),
        ("oversubscription=8", ACROSS_RACKS, 1.5),
        ("top=congested", ACROSS_RACKS[:1], 4.8),
        ("top=congested", ACROSS_RACKS, 0.6),
        ("oversubscription=8,top=congested", ACROSS_RACKS, 0.3),
    ],
)
def test_a_ring_of_eight_gets_its_share_of_the_slowest_link(
    parameters: str, gangs: list[list[int]], rate_GBps: float
) -> None:
    """By hand: compute + 14 steps of an eighth of the gradient at the share of the uplink, and of at most 14 us."""
    table = mix_profiles()
    wire_s = 14 / 8 * table.rows["gradient_bytes"] / (rate_GBps * 1e9)
    taken_s = iteration_s(parameters, gangs) - table.compute_s[:, 0] - wire_s
    assert (taken_s > -1e-12).all()
    assert (taken_s <= 14 * 14e-6 + 1e-12).all()


def test_models_differ_in_how_much_they_feel_the_network() -> None:
    """The slowdown ranges from negligible to a factor of several, which Dally's priorities and timers exploit."""
    machine = iteration_s("", ONE_MACHINE)
    rack, busy, congested = (
        iteration_s(*case) / machine for case in (("", IN_A_RACK), ("", ACROSS_RACKS), ("top=congested", ACROSS_RACKS))
    )
    assert rack.min() < 1.03
    assert 1.4 < rack.max() < 1.5
    assert busy.min() < 1.15
    assert 2.5 < busy.max() < 4
    assert congested.min() < 1.75
    assert congested.max() > 8


# --- the jobs


def shares(demand: dict[str, float], least: int, most: int) -> float:
    """Share of the GPU time of gangs of ``least`` to ``most`` GPUs."""
    work = {int(size): int(size) * share for size, share in demand.items()}
    return sum(value for size, value in work.items() if least <= size <= most) / sum(work.values())


def test_the_mix_has_gangs_that_a_machine_holds_and_more_that_it_does_not() -> None:
    assert sum(DEMAND.values()) == pytest.approx(1)
    assert max(map(int, DEMAND)) == 64
    assert 0.7 < shares(DEMAND, 8, 32) < 0.8
    assert 0.3 < shares(DEMAND, 2, 8) < 0.4
    assert shares(DEMAND, 1, 1) < 0.03
    ideal_h = get_scenario("dally-poisson-v1").instance(0).ideal_s / 3600
    assert 2 < np.median(ideal_h) < 4


def test_the_shift_changes_the_sizes_but_not_the_load() -> None:
    means = [sum(int(size) * share for size, share in mix.items()) for mix in (EARLY_DEMAND, LATE_DEMAND)]
    assert means[0] == pytest.approx(means[1])
    assert sum(EARLY_DEMAND.values()) == pytest.approx(sum(LATE_DEMAND.values())) == pytest.approx(1)
    assert shares(EARLY_DEMAND, 2, 8) == pytest.approx(0.5, rel=1e-12)  # a half, to the rounding of the sum
    assert shares(LATE_DEMAND, 2, 8) < 0.2
    assert shares(LATE_DEMAND, 32, 64) > 0.5 > 0.1 > shares(EARLY_DEMAND, 32, 64)


@pytest.mark.parametrize("name", ["dally-drift-v1", "dally-drift-v1:gpus=512,load=0.9", "dally-drift-v1:jobs=300"])
def test_drift_offers_its_load_and_changes_in_the_middle(name: str) -> None:
    """Over seeds: half of the jobs before the change, and the load that the name says, up to sampling error."""
    scenario = get_scenario(name)
    parameters = scenario.workload.parameters
    jobs = scenario.workload.jobs or 0
    load = float(name.partition("load=")[2] or 0.7)
    mean_gang = sum(int(size) * share for size, share in EARLY_DEMAND.items())
    offered = parameters["rate_per_s"] * mean_gang * MEAN_DURATION_S
    assert offered == pytest.approx(load * scenario.cluster.gpus, rel=1e-4)
    (change,) = scenario.network.changes
    assert (change.time_s, change.tier, change.slowdown) == (parameters["shift_s"], "rack", 8.0)
    assert parameters["shift_s"] == pytest.approx(jobs / parameters["rate_per_s"] / 2, abs=1)
    early = [
        (scenario.workload.draw(seed, None, scenario.cluster.gpus, ("V100",)).jobs["arrival_s"] < parameters["shift_s"])
        for seed in range(20)
    ]
    # Half a day is quiet and half busy, so arrivals up to an hour deviate by up to a quarter of a day's jobs.
    assert abs(np.mean(early) - 0.5) < 0.25 * 86_400 * parameters["rate_per_s"] / jobs + 0.05


def test_a_batch_is_there_at_once_and_venus_s_jobs_are_many_and_short() -> None:
    batch, venus = (get_scenario(name).instance(0) for name in ("dally-batch-v1", "dally-trace-v1"))
    assert (batch.workload.jobs["arrival_s"] == 0).all()
    assert np.median(venus.ideal_s) < 600
    assert len(venus.workload) == 2 * len(batch.workload)
    assert venus.workload.jobs["gpus"].max() <= 64


def test_a_log_takes_the_place_of_the_generator_and_keeps_models_and_network(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    rows = [f"2017-10-09 00:{m:02d}:00,{60 + m},{g},0,a\n" for m, g in enumerate([1, 2, 4, 8, 96])]
    file.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(rows))
    base = get_scenario("dally-trace-v1")
    scenario = base.with_workload(f"philly:{file}")
    assert scenario.instance(0).workload.jobs["gpus"].tolist() == [1, 2, 4, 8, 96]  # no limit of the scenario leaks
    assert scenario.network == base.network
    assert set(scenario.instance(0).workload.profiles.rows["name"]) == set(mix_profiles().rows["name"])


# --- purpose


def outcome(name: str, rule: str, seeds: int = 1) -> dict[str, float]:
    """Mean metrics of FIFO with a placement rule."""
    drawn = [get_scenario(name).instance(200_000 + draw) for draw in range(seeds)]
    found = [summarise(instance, play(instance, f"fifo-skip:placement={rule}")) for instance in drawn]
    return {metric: float(np.mean([each[metric] for each in found])) for metric in found[0]}


@pytest.mark.parametrize("name", DALLY)
def test_waiting_for_a_tighter_place_saves_communication(name: str) -> None:
    eager, patient = (outcome(name, rule, seeds=5) for rule in ("pack", "consolidate"))
    assert eager["finished"] == patient["finished"] == get_scenario(name).workload.jobs
    assert patient["communication_share"] < 0.95 * eager["communication_share"]


@pytest.mark.parametrize("name", ["dally-poisson-v1", "dally-trace-v1", "dally-drift-v1"])
def test_the_default_load_can_be_carried(name: str) -> None:
    """When the last job arrives, almost no job waits for its first start: the queue does not grow without bound."""
    waiting = []
    for seed in range(200_000, 200_030):
        instance = get_scenario(name).instance(seed)
        times = job_times(instance, play(instance, "fifo-skip:placement=consolidate"))
        last_s = instance.workload.jobs["arrival_s"].max()
        waiting.append((times["first_start_s"] > last_s).mean())
    assert np.mean(waiting) < 0.035


def test_the_price_of_not_waiting_grows_with_the_cost_of_the_top_tier() -> None:
    ratios = []
    for parameters in ("oversubscription=1", "oversubscription=8", "top=congested"):
        eager, patient = (outcome(f"dally-poisson-v1:{parameters}", rule, seeds=3) for rule in ("pack", "consolidate"))
        ratios.append(eager["mean_jct_s"] / patient["mean_jct_s"])
    assert 1.1 < ratios[0] < ratios[1] / 1.2 < ratios[2] / 1.4


def test_a_drift_slows_communication_after_the_change_only() -> None:
    """Communication of jobs that end before the change, and of jobs that arrive after it."""
    scenario = get_scenario("dally-drift-v1")
    instance = scenario.instance(200_000)
    steady = scenario.replace(network=dataclasses.replace(scenario.network, changes=())).instance(200_000)
    middle_s = scenario.network.changes[0].time_s
    taken = [job_times(each, play(each, "fifo-skip")) for each in (instance, steady)]
    before = taken[1]["finish_s"] < middle_s
    after = instance.workload.jobs["arrival_s"] >= middle_s
    assert 200 < before.sum() < 600
    np.testing.assert_array_equal(*(times["finish_s"][before] for times in taken))
    slow, fast = (float(times["communication_s"][after].sum()) for times in taken)
    assert slow > 2 * fast
