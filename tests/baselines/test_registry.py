"""Schedulers from text: typed parameters, modules of users, and errors that name the remedy."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers import instance_i

from gpusched_env.baselines import BASELINES, list_baselines, make_scheduler
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.simulator import Scheduler, simulate


def test_every_baseline_is_built_and_plays() -> None:
    for name in list_baselines():
        scheduler = make_scheduler(name)
        assert isinstance(scheduler, Scheduler)
        assert len(simulate(instance_i(), scheduler).events) >= 15
    assert set(BASELINES) - set(list_baselines(types=True, sharing=True, sizes=True, tenants=True)) == {"learned"}


def test_parameters_are_typed_like_the_defaults() -> None:
    scheduler = make_scheduler("tiresias:thresholds=3250/7200,knob=8,incumbents_first=true,placement=count")
    assert scheduler.parameters["thresholds"] == (3250.0, 7200.0)
    assert scheduler.parameters["knob"] == 8.0
    assert scheduler.parameters["incumbents_first"] is True
    assert scheduler.parameters["placement"] == "count"
    assert make_scheduler("random:seed=3").parameters["seed"] == 3
    assert make_scheduler("tiresias", knob=4.0).info.parameters["knob"] == 4.0
    assert make_scheduler("tiresias:knob=inf").parameters["knob"] == math.inf


def test_parameters_with_defaults_from_a_preset_are_typed() -> None:
    given = make_scheduler("dally:renew=false,fit=first,lease_s=600,hist=inf").parameters
    assert (given["renew"], given["fit"], given["lease_s"], given["hist"]) == (False, "first", 600, math.inf)


@pytest.mark.parametrize(("word", "value"), [("on", True), ("Yes", True), ("off", False), ("no", False)])
def test_truth_values_may_be_written_as_documented(word: str, value: bool) -> None:
    assert make_scheduler(f"sjf-bsbf:sub_batch_search={word}").parameters["sub_batch_search"] is value
    assert make_scheduler(f"dally:renew={word}").parameters["renew"] is value
    assert make_scheduler("dally:tuner=off").parameters["tuner"] == "off"  # a name there


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tiresas", r"unknown scheduler 'tiresas': did you mean 'tiresias'"),
        ("fifo:variannt=skip", r"unknown parameter 'variannt': did you mean 'variant'"),
        ("fifo:variant=skp", r"unknown FIFO variant 'skp': did you mean 'skip'"),
        ("sjf:key=tme", r"unknown key 'tme': did you mean 'time'"),
        ("srtf:estimator=orcle", r"unknown estimator 'orcle': did you mean 'oracle'"),
        ("tiresias:policy=ls", r"unknown policy"),
        ("fifo:strict=false", r"'fifo:strict=false': no parameter 'strict': fifo blocks .*fifo-skip starts whatever"),
        ("tiresias-dally:tuner=hand", r"tiresias-dally: policy=tiresias has no delay timers: leave tuner out"),
        ("gandiva-dally:nw_wait=3", r"gandiva-dally: policy=gandiva has no delay timers: leave nw_wait out"),
        ("dally:tuner=hnad", r"dally: unknown tuner 'hnad': did you mean 'hand'"),
        ("random:seed=1.5", r"expected a value like 0"),
        ("sjf:strict=maybe", r"strict='maybe': expected true or false, on or off, yes or no"),
        ("dally:renew=maybe", r"dally: renew is 'maybe': give true or false"),
        ("tiresias:thresholds=a/b", r"expected a value like"),
        ("las:round_s", r"not of the form parameter=value"),
        ("las:round_s=0", r"round_s is 0.0"),
        ("las:round_s=nan", r"round_s is nan"),
        ("tiresias:thresholds=5/5", r"must be above 0 and ascend"),
        ("tiresias:thresholds=-1", r"must be above 0 and ascend"),
        ("tiresias:knob=0", r"knob is 0"),
        ("srtf:sigma=-1", r"sigma is -1"),
        ("delay-zaharia:clock=wating", r"unknown clock 'wating': did you mean 'waiting'"),
        ("no.such.module:Thing", r"cannot import module 'no.such.module'"),
        ("math:Nothing", r"module 'math' has no class 'Nothing'"),
        ("math:pi", r"has no class 'pi'"),
        ("collections:OrderedDict", r"OrderedDict is not a subclass"),
        ("gpusched_env.simulator:Scheduler", r"abstract"),
        ("learned:greedy=on", r"give the model's path"),
    ],
)
def test_errors_name_the_mistake(spec: str, message: str) -> None:
    with pytest.raises(SchedulerError, match=message):
        make_scheduler(spec)


@pytest.mark.parametrize(
    "name", ["fifo", "fifo-easy", "sjf", "srtf", "las", "tiresias", "random", "yarn-cs", "themis-lite"]
)
def test_an_unknown_placement_is_an_error_with_the_nearest_name(name: str) -> None:
    with pytest.raises(GpuschedError, match=r"'pak'.*'pack'"):
        simulate(instance_i(), make_scheduler(f"{name}:placement=pak"))


def test_a_scheduler_from_a_module_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_module.py").write_text(
        "from dataclasses import dataclass\n"
        "from gpusched_env import Scheduler, Start\n"
        "@dataclass\n"
        "class MyScheduler(Scheduler):\n"
        "    rule: str = 'count'\n"
        "    def decide(self, view):\n"
        "        for job in view.waiting:\n"
        "            yield Start(job, self.rule)\n"
    )
    monkeypatch.chdir(tmp_path)
    scheduler = make_scheduler("my_own_module:MyScheduler:rule=spread")
    assert scheduler.parameters == {"rule": "spread"}
    mine = simulate(instance_i(), make_scheduler("my_own_module:MyScheduler"))
    assert mine.digest() == simulate(instance_i(), make_scheduler("fifo-skip:placement=count")).digest()
