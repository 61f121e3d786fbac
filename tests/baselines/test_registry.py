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
    for name in list_baselines({"links"}):
        scheduler = make_scheduler(name)
        assert isinstance(scheduler, Scheduler)
        assert len(simulate(instance_i(), scheduler).events) >= 15
    assert set(BASELINES) - set(list_baselines()) == {"learned"}


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
        ("gpusched_env.baselines.srtf:ShortestRemaningFirst", r"did you mean 'ShortestRemainingFirst'"),
        ("collections:OrderedDict", r"OrderedDict is not a subclass"),
        ("gpusched_env.simulator:Scheduler", r"abstract"),
        ("learned:greedy=on", r"give the model's path"),
        ("hadar:utility=effective_throughput", "unknown utility 'effective_throughput': did you mean"),
        ("hadar:order=fifo", "unknown order 'fifo'"),
        ("hadar:round_s=0", "round_s is 0.0"),
        ("hadar:spread_guard=-1", "spread_guard is -1.0"),
        ("hadar:dp_max=-1", "dp_max is -1"),
        ("sjf-bco:policy=bc", r"unknown policy 'bc'"),
        ("sjf-bco:semantics=idel", r"unknown semantics 'idel': did you mean 'idle'"),
        ("sjf-bco:order=trce", r"did you mean 'trace'"),
        ("sjf-bco:kappa_rule=leq", r"unknown kappa_rule"),
        ("sjf-bco:charge=profil", r"did you mean 'profile'"),
        ("sjf-bco:kappa=serch", r"kappa is 'serch': give a number >= 0, or search"),
        ("sjf-bco:theta=-1", r"theta is '-1': give a number >= 0, or grid or bisect"),
        ("sjf-bco:theta=nan", r"theta is 'nan'"),
        ("sjf-bco:lambda=0.5", r"lambda is 0.5: it must be a finite number >= 1"),
        ("sjf-bco:lambda=nan", r"lambda is nan"),
        ("sjf-bco:u=0", r"u is 0.0"),
        ("sjf-bco:horizon_s=0", r"horizon_s is 0.0"),
        ("sjf-bco:lamda=2", r"unknown parameter 'lamda': did you mean 'lambda"),
        ("sjf-bsbf:running_time=slo", "sjf-bsbf: unknown running_time 'slo': did you mean 'solo'"),
        ("sjf-ffs:placement=bsb", "sjf-ffs: unknown placement 'bsb': did you mean 'bsbf'"),
        ("sjf-bsbf:order=sfj", "unknown order 'sfj': did you mean 'sjf'"),
        ("sjf-bsbf:round_s=-1", "round_s is -1.0"),
        ("slurm:backfill=eazy", "slurm: unknown backfill 'eazy': did you mean 'easy'"),
        ("slurm:fair_share=fair", "unknown fair_share 'fair'"),
        ("slurm:preempt=quality", "unknown preempt 'quality'"),
        ("slurm:bf_resolution_s=0", "bf_resolution_s is 0.0: it must be a finite number > 0"),
        ("slurm:age_weight=-1", "age_weight is -1.0: it must be a finite number >= 0"),
        ("slurm:queue_depth=0", "queue_depth is 0: it must be a finite number >= 1"),
        ("slurm:calc_period_s=inf", "calc_period_s is inf"),
        ("slurm:placement=share-first-fit", "placement 'share-first-fit' shares GPUs"),
        ("themis-lite:lease_s=0", "lease_s is 0"),
        ("themis-lite:lease_s=nan", "lease_s is nan"),
        ("themis-lite:estimator=orcle", "'oracle'"),
        ("themis:lease_s=0", "lease_s is 0"),
        ("themis:lease_s=inf", "lease_s is inf"),
        ("themis:fairness_knob=2", "fairness_knob is 2"),
        ("themis:app=tenants", "unknown app 'tenants': did you mean 'tenant'"),
        ("themis:payment=leases", "unknown payment 'leases': did you mean 'lease'"),
        ("slurm:bf_resolution_s=0.001", "bf_window_s / bf_resolution_s"),
        ("gandiva-lite:quantum_s=0", "> 0"),
        ("gandiva-lite:quantum_s=inf", "> 0"),
        ("gandiva-lite:migrate_s=0", "> 0"),
        ("gandiva-lite:migrate_s=nan", "nan"),
        ("gandiva-lite:overhead=0", "> 0"),
        ("delay-zaharia:waits=3", "give two numbers >= 0"),
        ("delay-zaharia:waits=3/-1", "give two numbers >= 0"),
        ("delay-zaharia:waits=1/2/3", "give two numbers >= 0"),
        ("delay-zaharia:waits=nan/0", "give two numbers >= 0"),
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
