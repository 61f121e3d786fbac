"""The way back to slurm.conf: a fragment has only what a policy changes, with evidence, and keeps all else."""

import dataclasses

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.cli import app
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
from gpusched_env.twin import Pool, Twin
from gpusched_env.twin.conf_changes import KEYS, Change, Changes, changes_of, fragment, site_parameters
from gpusched_env.twin.configuration import known_policy

NODES = "NodeName=n[1-2] Gres=gpu:a100:8\nPartitionName=gpu Nodes=n[1-2]\n"
SITE = (
    "SchedulerParameters=bf_max_job_test=2000,default_queue_depth=5000,bf_resolution=600,bf_continue\n"
    "PriorityWeightAge=4000\n"
)
DAY_S = 86_400.0


def site(tmp_path, text=SITE):
    path = tmp_path / "slurm.conf"
    path.write_text(NODES + text)
    return read_slurm_cluster(path)[0]


def played(policy, days=12.0, jobs=1200, seed=3):
    """Return a twin with a policy, and a log that was played under it, with recorded waits."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, days * DAY_S, jobs)).round()
    gpus, run = rng.choice([1, 2, 4, 8], jobs), rng.exponential(1.2 * 3600, jobs).round() + 60
    log = Workload.from_columns(arrival, gpus, run, estimate_s=np.ceil(run * rng.uniform(1, 4, jobs) / 3600) * 3600)
    twin = Twin("slurm:x", policy, (Pool("gpu", Cluster.parse("2x8").groups),), split_s=0.4 * days * DAY_S)
    (problem,) = twin.problems(log)
    events = simulate(problem.instance, make_scheduler(problem.spec))
    waits = np.zeros(jobs)
    waits[problem.rows] = job_times(problem.instance, events)["first_start_s"] - log.jobs["arrival_s"][problem.rows]
    return twin, dataclasses.replace(log, attributes={"wait_s": waits})


def test_a_log_that_tells_nothing_leaves_slurm_conf_as_it_is(tmp_path):
    # nobody waits: the fit has age 0 and no backfill, the site age 4000 and backfill
    twin, jobs = played("slurm:age_weight=0,backfill=none", jobs=40)
    assert jobs.attributes["wait_s"].max() == 0.0
    found = changes_of(twin, site(tmp_path), jobs)
    assert not found.made
    assert {one.parameter for one in found.left} == {"age_weight", "backfill"}
    with pytest.raises(GpuschedError, match="nothing to change"):
        fragment(found, site(tmp_path))


def test_a_fitted_weight_that_the_log_tells_apart_is_a_line_with_its_evidence(tmp_path):
    twin, jobs = played("slurm:age_weight=4000,size_weight=9000,size_factor=small,backfill=none,queue_depth=5000")
    known = site(tmp_path, SITE + "SchedulerType=sched/builtin\n")
    found = changes_of(twin, known, jobs)
    assert [one.parameter for one in found.made] == ["size_weight", "size_factor"]
    text = fragment(found, known)
    assert "PriorityWeightJobSize=9000\n" in text
    assert "PriorityFavorSmall=YES\n" in text
    assert "# PriorityWeightJobSize: waits in the twin are 0.0% off the log with it" in text
    for other in ("SchedulerParameters", "SchedulerType", "PriorityMaxAge", "PriorityWeightAge"):
        assert f"{other}=" not in text
    short = dataclasses.replace(twin, split_s=10 * DAY_S)  # two days were not fitted: too few to tell
    assert not changes_of(short, known, jobs).made


def test_the_head_tells_the_waits_of_the_log_of_the_site_and_of_the_change(tmp_path):
    twin, jobs = played("slurm:age_weight=4000,queue_depth=5000,bf_resolution_s=600,bf_max_job_test=2000")
    found = changes_of(twin, site(tmp_path), jobs, "slurm:size_weight=90000,size_factor=small")
    log, today, here = found.waits_s
    assert log == today == pytest.approx(jobs.attributes["wait_s"].mean())  # the log was played under this slurm.conf
    assert here != today
    assert fragment(found, site(tmp_path)).startswith("# Mean wait: ")


def test_easy_backfill_is_no_change_of_slurms(tmp_path):
    twin, jobs = played("slurm:backfill=easy", jobs=200)
    for text in ("", "SchedulerType=sched/builtin\n"):
        found = changes_of(twin, site(tmp_path, text), jobs)
        assert "EASY" in found.notes[0]
        assert not [one for one in found.made if one.after == "easy"]


SITES = {
    "plain": "",
    "full": (
        "PriorityType=priority/multifactor\nPriorityWeightAge=1000\nPriorityWeightFairshare=10000\n"
        "PriorityWeightQOS=500\nPriorityWeightTRES=cpu=10,gres/gpu=70\nPriorityFavorSmall=YES\n"
        "PriorityFlags=NO_FAIR_TREE,CALCULATE_RUNNING\nSchedulerParameters=bf_continue,bf_interval=60,defer\n"
        "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n"
    ),
    "flags": "PriorityFlags=NO_FAIR_TREE\nSchedulerParameters=bf_one_resv_per_job\n",
    "relative": "PriorityFlags=SMALL_RELATIVE_TO_TIME\nPriorityWeightJobSize=10\n",
    "basic": (
        "PriorityType=priority/basic\nPriorityWeightFairshare=10000\nPriorityWeightQOS=6000\nPriorityWeightTRES=cpu=5\n"
    ),
    "requeue": "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n",
}
VALUES = {
    "age_weight": 77.0, "max_age_s": 3 * DAY_S, "fair_share_weight": 88.0, "damping": 3.0, "decay_half_life_s": DAY_S,
    "calc_period_s": 600.0, "size_weight": 99.0, "size_factor": ("small", "large", "relative"), "qos_weight": 5.0,
    "partition_weight": 6.0, "gpu_weight": 7.0, "fair_share": ("tree", "classic"), "preempt": ("off", "tier"),
    "preempt_exempt_s": 1200.0, "backfill": ("none", "conservative"), "queue_depth": 7, "bf_interval_s": 45.0,
    "bf_window_s": 7200.0, "bf_resolution_s": 120.0, "bf_max_job_test": 9, "bf_max_job_user": 4, "bf_max_job_start": 3,
    "bf_min_prio_reserve": 2.0, "bf_one_resv_per_job": (True, False), "youngest_first": (True, False),
}  # fmt: skip


def applied(text, lines):
    """Return slurm.conf after an administrator has followed a fragment, line by line."""
    settings = dict(line.split("=", 1) for line in text.splitlines())
    for line in lines.splitlines():
        if line.startswith("# delete the line "):
            settings.pop(line.removeprefix("# delete the line ").partition("=")[0])
        elif not line.startswith("#"):
            key, value = line.split("=", 1)
            assert value, line  # Slurm refuses a key without value
            settings[key] = value
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@pytest.mark.parametrize("text", SITES.values(), ids=SITES)
def test_every_parameter_written_to_every_site_is_read_back_and_nothing_else_changes(tmp_path, text):
    assert set(VALUES) == set(KEYS)
    before = site_parameters(site(tmp_path, text))
    cases = [{name: one} for name, told in VALUES.items() for one in (told if isinstance(told, tuple) else [told])]
    cases += [{"fair_share": "classic", "size_factor": "relative"}, {"fair_share": "tree", "size_factor": "large"}]
    for case in cases:
        made = tuple(Change(name, before[name], one, "told") for name, one in case.items() if before[name] != one)
        if not made:
            continue
        known = site(tmp_path, text)
        after = site(tmp_path, applied(text, fragment(Changes(made, (), (1.0, 2.0, 3.0)), known)))
        assert site_parameters(after) == before | case, case
        kept = known.scheduling.parameters.keys() - {KEYS[name].name for name in case}
        assert kept <= after.scheduling.parameters.keys()
        if "preempt" in case:  # the two keys must suit each other, or slurmctld does not start
            assert (after.scheduling.preempt_mode == "OFF") == (case["preempt"] == "off")
    assert site_parameters(site(tmp_path, text)) == before


def test_a_chosen_policy_changes_what_it_names_and_keeps_the_rest(tmp_path):
    twin, jobs = played("slurm:age_weight=4000")
    spec = "slurm:size_weight=900,size_factor=small,preempt_exempt_s=1200,bf_max_job_start=1,queue_depth=1"
    found = changes_of(twin, site(tmp_path), jobs, spec)
    text = fragment(found, site(tmp_path))
    (line,) = [line for line in text.splitlines() if line.startswith("SchedulerParameters=")]
    entries = line.partition("=")[2].split(",")
    assert {"bf_resolution=600", "bf_continue", "bf_max_job_test=2000", "default_queue_depth=1"} <= set(entries)
    assert "PriorityWeightJobSize=900\n" in text
    assert "PriorityWeightAge" not in text  # the spec does not name it
    assert "# PreemptExemptTime stays as it is" in text  # without preemption it changes no start
    told = site(tmp_path, applied(SITE, text))
    assert not changes_of(twin, told, jobs, spec).made  # the fragment does what it says


def test_slurm_conf_of_another_cluster_is_refused(tmp_path):
    twin, jobs = played("slurm", jobs=40)
    path = tmp_path / "other.conf"
    path.write_text("NodeName=n[1-3] Gres=gpu:a100:8\nPartitionName=gpu Nodes=n[1-3]\n")
    with pytest.raises(GpuschedError, match="has 24 GPUs, the twin 16"):
        changes_of(twin, read_slurm_cluster(path)[0], jobs, "slurm:age_weight=5")
    named = dataclasses.replace(twin, pools=(dataclasses.replace(twin.pools[0], partitions=("train",)),))
    with pytest.raises(GpuschedError, match="has no partition 'train'"):
        changes_of(named, site(tmp_path), jobs, "slurm:age_weight=5")


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("slurm:backfill=easy", "backfill=easy"),
        ("slurm:placement=consolidate", "placement"),
        ("slurm:preempt=class", "preempt=class"),
        ("slurm:grace_s=5", "grace_s"),
        ("slurm:size_weight=0.4", "size_weight=0.4 is 0 in slurm.conf"),
        ("slurm:preempt=qos", "fit it with --qos"),
        ("tiresias", "only that of the scheduler slurm"),
    ],
)
def test_what_slurm_conf_cannot_express_is_refused_not_dropped(tmp_path, spec, word):
    twin, jobs = played("slurm", jobs=40)
    with pytest.raises(GpuschedError, match=word):
        changes_of(twin, site(tmp_path), jobs, spec)


def test_the_site_is_read_with_its_own_values_and_slurms_defaults(tmp_path):
    told = site_parameters(site(tmp_path, SITE + "PreemptExemptTime=00:20:00\nPriorityFlags=SMALL_RELATIVE_TO_TIME\n"))
    assert (told["queue_depth"], told["bf_resolution_s"], told["bf_max_job_test"]) == (5000, 600.0, 2000)
    assert (told["age_weight"], told["preempt_exempt_s"], told["size_factor"]) == (4000.0, 1200.0, "relative")
    plain = site_parameters(site(tmp_path, ""))
    assert (plain["bf_max_job_test"], plain["backfill"], plain["bf_interval_s"]) == (500, "conservative", 30.0)
    assert set(KEYS) <= set(told)
    assert known_policy(site(tmp_path)).kept == {"queue_depth": 5000, "bf_resolution_s": 600.0, "bf_max_job_test": 2000}


def test_the_command_writes_a_fragment_under_the_grade(tmp_path):
    def call(*words):
        result = CliRunner().invoke(app, ["twin", *map(str, words)])
        assert result.exit_code == 0, str(result.exception) + result.output
        return result.output

    call("example", "--output", tmp_path, "--jobs", 800)
    conf, twin, part = (tmp_path / name for name in ("slurm.conf", "twin.json", "part.conf"))
    assert "twin: " in call("fit", f"slurm:{tmp_path / 'sacct.txt'}", "--conf", conf, "--output", twin)
    call("slurm-conf", twin, "--conf", conf, "--scheduler", "slurm:size_weight=100", "--output", part, "--anyway")
    first, *rest = part.read_text().splitlines()
    assert first.startswith("# twin: ")
    assert "PriorityWeightJobSize=100" in rest
    assert rest[0].startswith("# Mean wait: ")
