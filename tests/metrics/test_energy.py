"""Energy, cost and carbon: by hand, closed forms, a recount in small intervals, and meters of the core."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import linked_scenario, random_instance, small_scenario, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Workload, get_scenario, make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import ScenarioError, ScheduleError
from gpusched_env.event_log import RATE, EventLog
from gpusched_env.metrics import metric_names, segments, summarise, used, validate
from gpusched_env.metrics.co_residents import slowdowns
from gpusched_env.network import Network
from gpusched_env.problem.energy import METERS, Energy, integral
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.workload import Profiles
from gpusched_env.scenarios import scenario_from_dict
from gpusched_env.simulator import Simulation

KWH = 3.6e6  # [J]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of watts and a price that changes."""
    where = tmp_path_factory.mktemp("energy")
    types = {"V100", "A", "B"} | {
        kind for name in (*SCENARIOS, *CAPPED) for kind in get_scenario(name).cluster.gpu_types
    }
    rows = [f"{kind},{20 + 3 * i},{90 + 5 * i},{300 + 7 * i}" for i, kind in enumerate(sorted(types))]
    (where / "watts.csv").write_text("\n".join(["gpu,idle_w,communicating_w,computing_w", *rows]) + "\n")
    (where / "price.csv").write_text("time_s,value\n0,100\n300,-20\n900,500\n4000,0\n30000,70\n")
    return where


def energy_of(folder: Path, **fields: Any) -> Energy:
    price = str(folder / "price.csv")
    return Energy(**(dict(watts=str(folder / "watts.csv"), price=price, carbon="400") | fields))


def played(instance: Instance, spec: str) -> tuple[Simulation, EventLog]:
    simulation = Simulation(instance)
    simulation.run(make_scheduler(spec))
    return simulation, simulation.log()


SCENARIOS = {
    "philly-64-v1": "tiresias", "leaf-spine-256-v1": "srtf", "bsbf-sim-240-v1": "sjf-bsbf", "hadar-60gpu-v1": "hadar",
    "hadare-lab-v0": "hadare", "rar-160-v0": "sjf-bco", "sia-hetero-v0": "sia",
}  # fmt: skip


CAPPED = ("pollux-64-v0", "bsbf-physical-30-v1")


def few_jobs(name: str) -> Any:
    whole = get_scenario(name)
    jobs = min(whole.workload.jobs or 40, 40)
    return whole.replace(workload=dataclasses.replace(whole.workload, jobs=jobs), tracked_window=None)


def test_by_hand(tmp_path: Path) -> None:
    """Three machines of two GPUs. Gang of 4: 100 iterations of 0.6 s, 0.6 of it compute, from 10 to 75 s.

    Its start takes 5 s. 2 GPUs idle for 65 s, and sleep after 40 s.
    """
    rows = [dict(name="m", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=1.0, overlap=1.0, compute_s=0.6)]
    workload = Workload.from_columns([10.0], [4], iterations=[100.0], profiles=Profiles.from_rows(rows))
    (tmp_path / "w.csv").write_text("gpu,idle_w,communicating_w,computing_w,note\nV100,50,100,300,x\n")
    (tmp_path / "p.csv").write_text("time_s,value\n0,1\n60,3\n")
    energy = Energy(str(tmp_path / "w.csv"), str(tmp_path / "p.csv"), "", sleep_after_s=40.0, sleep_w=5.0)
    instance = Instance(Cluster.parse("3x2"), workload, Network("none"), Semantics(start_s=5.0), energy=energy)
    instance.compute_s[:] = 0.6 * instance.iteration_s  # the rest is exposed communication
    _, log = played(instance, "fifo")
    run_s = 100 * 0.6
    end_s = 15 + run_s
    found = used(instance, log, energy)
    gang = 4 * (5 * 100 + run_s * (0.6 * 300 + 0.4 * 100))
    idle = 2 * (40 * 50 + (end_s - 50) * 5)
    assert log.events["time_s"][-1] == end_s
    assert found["energy_kwh"].jobs * KWH == pytest.approx([gang])
    assert found["energy_kwh"].idle * KWH == pytest.approx(idle)
    late = (end_s - 60) * (4 * 220 + 2 * 5)  # at price 3
    assert found["cost"].all * KWH == pytest.approx(gang + idle + 2 * late)
    assert "carbon_kg" not in found
    assert summarise(instance, log)["energy_kwh"] * KWH == pytest.approx(gang + idle)


@pytest.mark.parametrize(("name", "spec"), SCENARIOS.items())
def test_meters_agree_with_the_log(name: str, spec: str, folder: Path) -> None:
    energy = energy_of(folder, sleep_after_s=300.0, sleep_w=7.0, wake_j=5e4)
    instance = few_jobs(name).replace(energy=energy).instance(200_000)
    simulation, log = played(instance, spec)
    plain = few_jobs(name).instance(200_000)
    assert played(plain, spec)[1].digest() == log.digest()
    assert plain.fingerprint() == instance.fingerprint()
    for meter, (name, of) in enumerate(used(instance, log, energy).items()):
        assert name == METERS[meter]
        assert float(simulation.arrays.meters["total"][meter]) == pytest.approx(of.all, rel=1e-12)


def recounted(instance: Instance, log: EventLog, energy: Energy, name: str) -> tuple[np.ndarray, float]:
    """Use by job, and of idle GPUs, from the holders of each GPU between any two times at which something changes."""
    table, series = segments(instance, log), energy.meters[name]
    types = instance.cluster.nodes["gpu_type"][instance.cluster.node_of_gpu]
    watts, end_s, first_s = energy.of_types(instance.cluster), log.events["time_s"][-1], log.events["time_s"][0]
    ends = [table[field] for field in ("hold_s", "progress_s", "stop_s", "free_s")]
    edges = np.unique(np.concatenate([*ends, log.events["time_s"], series["time_s"], [first_s]]))
    edges = edges[(edges >= first_s) & (edges <= end_s)]
    gangs = [log.gang(event) for event in table["start_event"]]
    rates = log.events[log.events["kind"] == RATE]
    slow = slowdowns(instance, log, table) if instance.gpu_jobs > 1 else None
    plain = instance.compute_s[instance.job_class[table["job"]], table["tier"], 0]
    jobs, idle = np.zeros(len(instance.workload)), 0.0
    for begin, end in itertools.pairwise(edges):
        price = series["value"][np.searchsorted(series["time_s"], begin, side="right") - 1] * (end - begin)
        inside = np.flatnonzero((table["hold_s"] <= begin) & (end <= table["free_s"]))
        holders = np.bincount(np.concatenate([[], *(gangs[i] for i in inside)]).astype(int), minlength=len(types))
        for i in inside:
            share = 0.0
            if table["progress_s"][i] <= begin and end <= table["stop_s"][i]:
                share = table["compute_s"][i] / table["iteration_s"][i]
                told = rates[(rates["job"] == table["job"][i]) & (rates["time_s"] <= begin)]
                if len(told):
                    stretch = 1.0 if slow is None else slow.at(np.array([i]), np.array([begin]))[0]
                    share = plain[i] * stretch / told["value"][-1]
            _, low, high = watts[types[gangs[i]]].T
            jobs[table["job"][i]] += ((low + share * (high - low)) / holders[gangs[i]]).sum() * price
        idle += watts[types[holders == 0], 0].sum() * price
    return jobs, idle


@pytest.mark.parametrize("kind", ["preempting", "links", "shared"])
@given(seed=st.integers(0, 2**20))
@settings(max_examples=4)
def test_a_recount_in_small_intervals_agrees(kind: str, seed: int, folder: Path) -> None:
    energy = energy_of(folder)
    if kind == "preempting":
        instance = random_instance(seed, 12, checkpoint_s=40.0, restore_s=70.0)
    elif kind == "links":
        instance = linked_scenario(jobs=12).instance(seed)
    else:
        shared = {"limit": 2, "interference": 1.1}
        scenario = scenario_from_dict(small_scenario(12).as_dict() | {"sharing": shared})
        crowded = dataclasses.replace(scenario.workload, max_gpus=4)
        instance = scenario.replace(workload=crowded).with_cluster(Cluster.parse("1x4")).instance(seed)
    instance.energy = energy
    _, log = played(instance, "sjf-bsbf" if kind == "shared" else "srtf")
    for name, of in used(instance, log, energy).items():
        jobs, idle = recounted(instance, log, energy, name)
        assert of.jobs == pytest.approx(jobs, rel=1e-9)
        assert of.idle == pytest.approx(idle, rel=1e-9)


def test_splitting_a_series_or_equal_watts_change_nothing(folder: Path, tmp_path: Path) -> None:
    instance = random_instance(3, 20)
    _, log = played(instance, "srtf")
    rows = (folder / "price.csv").read_text().splitlines()
    (tmp_path / "more.csv").write_text("\n".join([*rows[:2], "111,100", *rows[2:4], "901,500", *rows[4:]]))
    one, more = (
        used(instance, log, energy_of(folder, price=str(at))) for at in (folder / "price.csv", tmp_path / "more.csv")
    )
    assert more["cost"].all == pytest.approx(one["cost"].all, rel=1e-12)
    assert used(instance, log, energy_of(folder, price="0.25"))["cost"].all == pytest.approx(
        0.25 * one["energy_kwh"].all
    )
    (tmp_path / "w.csv").write_text("gpu,idle_w,communicating_w,computing_w\nV100,100,100,100\n")
    flat = used(instance, log, Energy(str(tmp_path / "w.csv"), sleep_after_s=50.0, sleep_w=100.0))["energy_kwh"]
    span = log.events["time_s"][-1] - log.events["time_s"][0]
    assert flat.all * KWH == pytest.approx(100 * instance.cluster.gpus * span)


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(-1e3, 1e3)), min_size=1, max_size=8), st.floats(0, 1e7))
def test_integrals(steps: list[tuple[float, float]], at: float) -> None:
    series = np.zeros(len(steps), [("time_s", "f8"), ("value", "f8"), ("area", "f8")])
    series["time_s"] = np.cumsum([0, *(gap for gap, _ in steps[1:])])
    series["value"] = [value for _, value in steps]
    series["area"][1:] = np.cumsum(series["value"][:-1] * np.diff(series["time_s"]))
    ends = [*series["time_s"][1:], np.inf]
    by_hand = sum(v * max(min(at, end) - t, 0.0) for (t, v, _), end in zip(series.tolist(), ends, strict=True))
    assert float(integral(series, np.array(at))) == pytest.approx(by_hand, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize("spec", ["sharing", "rigid"])
def test_rewards_sum_to_the_metrics(spec: str, folder: Path) -> None:
    scenario = small_scenario(15, energy=energy_of(folder, price="0.3", sleep_after_s=60.0, sleep_w=1.0))
    if spec == "sharing":
        shared = {"limit": 2, "interference": 1.4}
        scenario = scenario_from_dict(scenario.as_dict() | {"sharing": shared})
    options = dict(scenario=scenario, rules=("pack", "share-first-fit") if spec == "sharing" else ("pack",))
    for reward, name in (("energy", "energy_kwh"), ("cost", "cost"), ("carbon", "carbon_kg")):
        env = ClusterEnv(reward=reward, **options)
        envs = gym.make_vec("gpusched/Cluster-v0", num_envs=2, reward=reward, **options)
        rng, twin = np.random.default_rng(5), np.random.default_rng(5)
        _, info = env.reset(seed=7)
        _, infos = envs.reset(seed=[7, 8])
        returned = batched = 0.0
        over = False
        while not over:
            _, value, over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            masks = infos["action_mask"]
            action = [int(twin.choice(np.flatnonzero(masks[0]))), int(np.flatnonzero(masks[1])[0])]
            _, values, overs, _, infos = envs.step(np.array(action))
            returned, batched = returned + float(value), batched + float(values[0])
        assert overs[0]
        assert batched == pytest.approx(returned, rel=1e-6)
        run = used(env.simulation.instance, env.event_log(), scenario.energy)[name].all
        largest = float(scenario.energy.meters[name]["value"].max())
        work = float((env.simulation.instance.ideal_s * env.simulation.instance.workload.jobs["gpus"]).sum())
        watts = scenario.energy.of_types(scenario.cluster).max()
        assert -returned * work * watts * largest == pytest.approx(run, rel=1e-5)
    with pytest.raises(ScenarioError, match="no carbon_kg"):
        ClusterEnv(scenario=small_scenario(5, energy=energy_of(folder, carbon="")), reward="carbon").reset(seed=1)


def test_columns_only_if_asked(folder: Path) -> None:
    instance = unit_instance([0.0], [2], [10.0])
    assert not {"energy_kwh", "cost"} & set(metric_names(instance))
    instance.energy = energy_of(folder, price="")
    _, log = played(instance, "fifo")
    assert list(summarise(instance, log)) == metric_names(instance)
    own = set(metric_names(instance))
    assert {"energy_kwh", "energy_per_job_kwh", "idle_energy_share", "carbon_kg"} <= own
    assert "cost" not in own


def test_scenarios_with_energy(folder: Path) -> None:
    plain = get_scenario("tiny-v1")
    scenario = plain.replace(energy=energy_of(folder, carbon="5"))
    assert scenario_from_dict(scenario.as_dict()) == scenario
    assert "energy" not in plain.as_dict()
    moved = folder / "moved.csv"
    moved.write_bytes((folder / "price.csv").read_bytes())
    assert (
        scenario.replace(energy=energy_of(folder, carbon="5", price=str(moved))).fingerprint() == scenario.fingerprint()
    )
    assert scenario.replace(energy=energy_of(folder, carbon="6")).fingerprint() != scenario.fingerprint()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time_s,value\n5,1\n", "line 2, field 'time_s': 5: times must ascend from 0 s"),
        ("time_s,value\n0,1\n7,1\n7,2\n", "line 4, field 'time_s': 7: times must ascend"),
        ("time_s,value\n0,x\n", "line 2, field 'value': 'x': expected a finite number"),
        ("time_s,value\n0,inf\n", "expected a finite number"),
        ("time_s,price\n0,1\n", "no column 'value'"),
        ("time_s,value\n", "no row in it"),
    ],
)
def test_wrong_series(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "price.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=f"price.csv.*{told}"):
        Energy(price=str(path)).meters  # noqa: B018


def test_wrong_energy(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"unknown GPU type 'V100'.*give a table"):
        unit_instance([0.0], [1], [1.0]).energy = Energy().of_types(Cluster.parse("1x1"))
    for fields, told in (
        (dict(sleep_after_s=5.0), "sleep_w"),
        (dict(wake_j=-1.0), "wake_j is -1.0"),
        (dict(sleep_after_s=float("nan"), sleep_w=1.0), "sleep_after_s"),
    ):
        with pytest.raises(ScenarioError, match=told):
            Energy(**fields)
    for fields, told in (
        (dict(carbon="-1"), ">= 0"),
        (dict(price="nan"), "finite"),
        (dict(price="no.csv"), "No such file"),
    ):
        with pytest.raises(ScenarioError, match=told):
            Energy(**fields).meters  # noqa: B018
    table = tmp_path / "w.csv"
    for rows, told in (
        ("V100,1,2", "it ends before 'computing_w'"),
        ("V100,1,2,-3", "-3"),
        ("V100,1,2,3\nV100,1,2,3", "given already"),
    ):
        table.write_text(f"gpu,idle_w,communicating_w,computing_w\n{rows}\n")
        with pytest.raises(ScenarioError, match=told):
            Energy(str(table)).of_types(Cluster.parse("1x1"))


def test_the_shipped_table() -> None:
    """TDP computes, what is not measured is named as a choice, and each row has its source."""
    table = Energy().table
    assert table["A100-80"].watts[::2] == (60, 400)
    for name, (watts, chosen) in table.items():
        assert watts[0] < watts[1] < watts[2], name
        assert ("idle" in chosen) == (name != "A100-80")
    chosen = Energy().chosen(Cluster.parse("2x8@H100,1x4@A100-80"))
    assert list(chosen.values()) == [16, 4]


@pytest.mark.parametrize(
    "spec", ["fifo", "srtf", "tiresias", "gavel", "dally", "fifo-easy", "yarn-cs", "las", "gandiva-lite", "bco-ls"]
)
def test_power_cap(spec: str, tmp_path: Path) -> None:
    """Power never exceeds the cap, the log is valid, and every job finishes, whoever plays."""
    (tmp_path / "w.csv").write_text("gpu,idle_w,communicating_w,computing_w\nV100,50,150,300\n")
    (tmp_path / "cap.csv").write_text("time_s,value\n0,19200\n5000,9600\n20000,4000\n26000,12000\n60000,19200\n")
    energy = Energy(str(tmp_path / "w.csv"), cap_w=str(tmp_path / "cap.csv"))
    scenario = small_scenario(40, energy=energy)
    scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, max_gpus=8))
    instance = scenario.instance(200_000)
    simulation, log = played(instance, spec)
    validate(instance, log)
    table = segments(instance, log)
    assert np.isfinite(table["free_s"]).all()
    for time_s, cap_w in np.loadtxt(tmp_path / "cap.csv", delimiter=",", skiprows=1):
        for at in (time_s + 1.0, time_s + 3000.0):
            held = table["gpus"][(table["hold_s"] <= at) & (at < table["free_s"])].sum()
            assert held * 300 + (instance.cluster.gpus - held) * 50 <= cap_w
    found = used(instance, log, energy)["energy_kwh"].all
    assert float(simulation.arrays.meters["total"][0]) == pytest.approx(found, rel=1e-12)
    assert len(instance.capped)
    free = dataclasses.replace(scenario, energy=None).instance(200_000)
    late = played(free, spec)[1]
    with pytest.raises(ScheduleError, match="power cap"):
        validate(instance, late)


def test_a_cap_below_idle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("gpu,idle_w,communicating_w,computing_w\nV100,50,150,300\n")
    with pytest.raises(ScenarioError, match="cap_w: 300 W at 0 s, but idle GPUs draw 400 W"):
        Energy(str(tmp_path / "w.csv"), cap_w="300").closed(Cluster.parse("2x4"))


@pytest.mark.parametrize("name", CAPPED)
def test_power_cap_in_rounds_with_sizes_and_with_shared_gpus(name: str, folder: Path, tmp_path: Path) -> None:
    scenario = few_jobs(name)
    most = float(energy_of(folder).of_types(scenario.cluster).max()) * scenario.cluster.gpus
    (tmp_path / "cap.csv").write_text(f"time_s,value\n0,{most}\n2000,{0.6 * most}\n9000,{most}\n")
    instance = scenario.replace(energy=energy_of(folder, cap_w=str(tmp_path / "cap.csv"))).instance(200_000)
    simulation, log = played(instance, "pollux" if "pollux" in name else "sjf-bsbf")
    assert len(instance.capped)
    validate(instance, log)
    found = used(instance, log, instance.energy)["energy_kwh"].all
    assert float(simulation.arrays.meters["total"][0]) == pytest.approx(found, rel=1e-12)
