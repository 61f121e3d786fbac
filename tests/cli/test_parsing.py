"""Parsing of options: lists of specs, seeds, scenarios with other jobs and machines, output files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusched_env.cli.changing import with_network, with_preemption_cost
from gpusched_env.cli.choosing import Problem
from gpusched_env.cli.outputs import check_output
from gpusched_env.cli.parsing import chosen_scenario, chosen_schedulers, chosen_seeds, not_for_reports, seed_range
from gpusched_env.errors import GpuschedError
from gpusched_env.network import NETWORK_PRESETS, Contention
from gpusched_env.scenarios import get_scenario, ring_all_reduce
from gpusched_env.support.files import whole


@pytest.mark.parametrize(
    ("texts", "specs"),
    [
        (["fifo"], ["fifo"]),
        (["fifo,sjf , srtf"], ["fifo", "sjf", "srtf"]),
        (["fifo", "sjf,las"], ["fifo", "sjf", "las"]),
        (
            ["fifo,tiresias:knob=8,thresholds=3250/7200,srtf"],
            ["fifo", "tiresias:knob=8,thresholds=3250/7200", "srtf"],
        ),
        (["tiresias,knob=8,packlimit=0.5,sjf"], ["tiresias:knob=8,packlimit=0.5", "sjf"]),
        (
            ["gpusched_env.baselines.sjf:ShortestJobFirst,key=time,strict=true,las"],
            ["gpusched_env.baselines.sjf:ShortestJobFirst:key=time,strict=true", "las"],
        ),
        (
            ["gpusched_env.baselines.sjf:ShortestJobFirst:key=gpu-time,strict=true"],
            ["gpusched_env.baselines.sjf:ShortestJobFirst:key=gpu-time,strict=true"],
        ),
        (["tiresias:knob=8", "tiresias:knob=2"], ["tiresias:knob=8", "tiresias:knob=2"]),
        (["Ours=tiresias:knob=8,packlimit=0.5,las"], ["Ours=tiresias:knob=8,packlimit=0.5", "las"]),
        (["fifo,Ours (a)=sjf:placement=spread,key=gpu-time"], ["fifo", "Ours (a)=sjf:placement=spread,key=gpu-time"]),
        (
            ["fifo,A=gpusched_env.baselines.srtf:ShortestRemainingFirst"],
            ["fifo", "A=gpusched_env.baselines.srtf:ShortestRemainingFirst"],
        ),
        # A parameter of the scheduler before it, or of another one, stays a parameter, whatever its value.
        (["drf,order=fair,fifo"], ["drf:order=fair", "fifo"]),
        (["order=fair,fifo"], ["order=fair", "fifo"]),
        (["fifo", "placement=sjf"], ["fifo", "placement=sjf"]),
    ],
)
def test_lists_of_schedulers(texts: list[str], specs: list[str]) -> None:
    assert chosen_schedulers(texts) == specs


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["fifo,,sjf"], "nothing between two commas"),
        (["fifo,"], "nothing between two commas"),
        ([""], "nothing between two commas"),
        (["knob=8,fifo"], "no scheduler before it"),
        (["fifo,tiresias", "fifo"], "'fifo' and 'fifo' are the same"),
        (["fifo,fifo:variant=strict"], "are the same; name it once"),
        (["fifo,tiresias,nob=8"], "unknown parameter 'nob'"),
        (["fifoo"], "did you mean 'fifo'"),
        (["Ours=fifoo"], "did you mean 'fifo'"),
        (["fifo,order=fair"], "unknown parameter 'order'.*NAME=SPEC comes first"),
        (["tiresias,polizy=las,fifo"], "unknown parameter 'polizy': did you mean 'policy'"),
        (["A=b=fifo"], "NAME has no comma, colon or ="),
        (["a:b=fifo"], "NAME has no comma, colon or ="),
        (['"x,y"=fifo'], "NAME has no comma, colon or ="),
        (["Ours, 100%=fifo"], "NAME has no comma, colon or ="),
        (["a\nb=fifo"], "must be printable"),
        (["a\tb=fifo"], "must be printable"),
        (["lower bound=fifo"], "not 'lower bound'"),
        (["random=fifo"], "'random' is the name of another scheduler"),
        (["tiresia:knob=8"], "unknown scheduler 'tiresia': did you mean 'tiresias'"),
        (["A=fifo,A=las"], "two schedulers are called 'A'"),
        (["las=fifo,las"], "'las' is the name of another scheduler"),
        (["A=fifo,B=fifo:variant=strict"], "are the same"),
        (["fifo,=las"], "write NAME=SPEC"),
    ],
)
def test_lists_that_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        chosen_schedulers(texts)


def test_seeds() -> None:
    scenario = get_scenario("tiny-v1")
    first = scenario.seeds.report[0]
    assert chosen_seeds(None, scenario) == list(range(first, first + 5))
    assert chosen_seeds("2", scenario) == [first, first + 1]
    assert chosen_seeds("7:10", scenario) == [7, 8, 9]
    assert chosen_seeds(None, scenario.with_workload("philly:log.csv")) == [first]  # a log has the same jobs every time
    for wrong in ("0", "21", "5:5", "9:5", "a", "1,2", "-3", "1:", ":2", ""):
        with pytest.raises(GpuschedError, match="--seeds"):
            chosen_seeds(wrong, scenario)


def test_seeds_that_agents_train_on_are_pointed_out() -> None:
    scenario = get_scenario("tiny-v1")
    assert not_for_reports(range(*scenario.seeds.report), scenario) == ""
    assert "for training" in not_for_reports([0], scenario)
    assert "for validation" in not_for_reports([scenario.seeds.validation[0], 10**6], scenario)
    assert (seed_range([4]), seed_range([4, 5, 6])) == ("seed 4", "seeds 4:7")


def test_a_scenario_on_other_jobs_and_machines_says_so() -> None:
    assert chosen_scenario("tiny-v1", None, None) == get_scenario("tiny-v1")
    found = chosen_scenario("tiny-v1", "philly:some/folder/log.csv.gz", "4x8/2")
    assert found.name == "tiny-v1 + philly:log.csv.gz + 4x8/2"
    assert (found.cluster.gpus, len(found.cluster.racks)) == (32, 2)
    assert chosen_scenario("tiny-v1", "synthetic:helios-venus", None).name == "tiny-v1 + synthetic:helios-venus"


def test_output_paths_are_checked_before_the_run(tmp_path: Path) -> None:
    check_output("--output", tmp_path / "new" / "folder" / "a.JSON", (".json",))
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.json").mkdir()
    for path, message in (
        (tmp_path / "a.txt", "must end in .json"),
        (tmp_path / "file" / "a.json", "cannot be written"),
        (tmp_path / "folder.json", "this is a folder"),
    ):
        with pytest.raises(GpuschedError, match=message):
            check_output("--output", path, (".json",))


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(GpuschedError, match=r"a\.txt: cannot be written"), whole(path):
        pass  # nothing was written: the old file stays
    with pytest.raises(UnicodeEncodeError), whole(path) as partial:
        partial.write_text("half \ud800", encoding="utf-8")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with whole(path) as partial:
        assert partial.suffix == ".txt"
        partial.write_text("new")
    assert path.read_text() == "new"


def test_a_scenario_on_another_network_says_so() -> None:
    tiny, rar = get_scenario("tiny-v1"), get_scenario("rar-160-v0")
    assert with_network(tiny, None, None) is tiny
    found = with_network(tiny, "oversub4", None)
    assert (found.name, found.network.topology) == ("tiny-v1 + oversub4", NETWORK_PRESETS["oversub4"].topology)
    assert found.network.contention == Contention("maxmin")
    assert with_network(tiny, "oversub4", "none").network.contention == Contention("none")
    found = with_network(rar, "pcie4-10g", None)  # the scenario says how gangs contend
    assert found.network.contention == rar.network.contention
    found = with_network(rar, None, "budget:extra=0.15")
    assert found.fingerprint() == ring_all_reduce(0.15).fingerprint()
    assert found.name == "rar-160-v0 + budget:extra=0.15"
    found = with_network(rar, None, "kway:k_mode=affine,alpha=1")
    assert found.network.contention == Contention("kway", xi1=0.5, alpha=1.0, k_mode="affine", extra=0.6)


@pytest.mark.parametrize(
    ("network", "contention", "message"),
    [
        ("oversub", None, "--network: unknown preset of networks 'oversub': did you mean 'oversub4'"),
        (None, "kway", "--contention kway: scenario tiny-v1 has no links .*; give --network as well"),
        ("oversub4", "kwai", "contention: contention.model: unknown value 'kwai': did you mean 'kway'"),
        ("oversub4", "kway:xi=1", "did you mean 'xi1'"),
        ("oversub4", "kway:xi1=one", "xi1 is 'one': it must be a number"),
        ("oversub4", "kway:xi1", "'xi1' is not of the form field=value"),
        ("oversub4", "kway:", "'' is not of the form field=value"),
        ("oversub4", "table", "name the table's path for model 'table'"),
    ],
)
def test_networks_that_are_refused(network: str | None, contention: str | None, message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        with_network(get_scenario("tiny-v1"), network, contention)


def test_a_scenario_with_another_cost_of_preemption_says_so() -> None:
    tiny = get_scenario("tiny-v1")
    assert with_preemption_cost(tiny, None) is tiny
    assert with_preemption_cost(tiny, "zero").fingerprint() == tiny.fingerprint()  # its preemption is free
    costs = {"tiresias62": (31.0, 31.0), "pollux30": (0.0, 30.0), "process": (0.0, 29.8), "12.5/3": (12.5, 3.0)}
    for text, seconds in costs.items():
        found = with_preemption_cost(tiny, text)
        assert (found.semantics.checkpoint_s, found.semantics.restore_s) == seconds
        assert found.name == f"tiny-v1 + preemption cost {text}"
        assert found.fingerprint() != tiny.fingerprint()


def test_noise_and_latencies_of_starts_are_fields_of_the_workload() -> None:
    problem = Problem(scenario="tiny-v1", noise=True, start_latency="container")
    found = problem.chosen()
    assert (found.workload.noise, found.workload.start_latency) == ({}, "container")
    assert found.name == "tiny-v1 + noise + start latency container"
    assert Problem(scenario="tiny-v1").chosen().fingerprint() == get_scenario("tiny-v1").fingerprint()
    with pytest.raises(GpuschedError, match="unknown kind 'containers': did you mean 'container'"):
        Problem(scenario="tiny-v1", start_latency="containers").chosen()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tiresias", "unknown cost 'tiresias': did you mean 'tiresias62'"),
        ("30", "or write CHECKPOINT/RESTORE"),
        ("30/", "write the seconds of checkpoint and restore"),
        ("30/-1", r"semantics\.restore_s is -1"),
        ("inf/0", r"semantics\.checkpoint_s is inf: it must be at most"),
    ],
)
def test_costs_of_preemption_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        with_preemption_cost(get_scenario("tiny-v1"), text)
