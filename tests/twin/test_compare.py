"""Comparisons on a twin: waits by hand, settings, the CSV, the report, lines of slurm.conf, and the commands."""

import csv
import dataclasses
import io
import re
from datetime import date

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.cli import app
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.partitions import Reservation
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.simulator import simulate
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
from gpusched_env.twin import Pool, Twin, read_twin, write_twin
from gpusched_env.twin.comparing import compare_policies, play_policy, settings_of, wait_ratio, with_nodes
from gpusched_env.twin.configuration import known_policy, node_list, not_played, pools_of, pools_of_texts
from gpusched_env.twin.fitting import fit_twin
from gpusched_env.twin.inferred_priorities import Rights, find_pairs
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.summary import assumptions, comparison_csv, comparison_rows, sentences, tenants_of

CONF = """\
SchedulerType=sched/builtin
PriorityDecayHalfLife=1-0
SchedulerParameters=bf_interval=60,bf_window=2880
NodeName=a[1-2] Gres=gpu:a100:8
NodeName=b[1-4] Gres=gpu:v100:4
NodeName=c1 CPUs=8
PartitionName=big Nodes=a[1-2]
PartitionName=old Nodes=b[1-4]
PartitionName=debug Nodes=b4
PartitionName=cpu Nodes=c1
"""


def small():
    """Two users on two GPUs under FIFO: ana's long job keeps bo's short ones waiting."""
    jobs = Workload.from_columns(
        [0, 1, 1, 700_000], [2, 1, 1, 2], [1000, 10, 10, 10], estimate_s=[1000, 10, 10, 10],
        attributes={"user": np.array(["ana", "bo", "bo", "ana"]), "wait_s": np.array([0.0, 999, 999, 0])},
    )  # fmt: skip
    pools = (Pool("all", Cluster.parse("1x2").groups),)
    return Twin("slurm:x", "slurm", pools, Tenants(), ("user",)), jobs


def compared(**changes):
    twin, jobs = small()
    return compare_policies(settings_of(twin, jobs, **changes), ["srtf"], workers=1)


def test_waits_are_those_counted_by_hand():
    found = compared()
    current, srtf = found.outcomes
    assert (current.policy, srtf.policy) == ("current", "srtf")
    assert current.wait_s.tolist() == [0.0, 999.0, 999.0, 0.0]
    # srtf preempts the long job at 1 (checkpoint 30 s), plays the short ones, then restores it
    assert srtf.wait_s.tolist() == [10.0, 30.0, 30.0, 0.0]
    assert srtf.preemptions == 1
    assert current.gpu_hours == pytest.approx((2000 + 40) / 3600)
    ratio = found.ratio(srtf)
    assert ratio.mean == pytest.approx(70 / 1998)
    ana, bo = tenants_of(found, srtf)
    assert (ana.name, ana.verdict, bo.name, bo.verdict) == ("ana", 0, "bo", 1)


def test_more_machines_and_more_load_make_a_second_setting():
    found = compared(add_nodes="1x2@H100", load=2.0)
    assert [(one.setting, one.policy) for one in found.outcomes] == [
        ("today", "current"), ("today", "srtf"), ("+ 1x2@H100, load x 2", "current"), ("+ 1x2@H100, load x 2", "srtf"),
    ]  # fmt: skip
    assert found.outcomes[2].wait_s.tolist() == [0.0] * 4
    assert found.settings[1].workload.jobs["arrival_s"].tolist() == [0.0, 0.5, 0.5, 350_000.0]
    assert found.settings[1].twin.gpus == 4


def test_run_times_of_another_log_are_said_to_be_those_of_its_machines():
    (today, *_) = compared().settings
    found = [
        assumptions(dataclasses.replace(compared(), settings=(dataclasses.replace(today, log=log, twin=twin),)))
        for log in (today.twin.log, "slurm:other")
        for twin in (today.twin, dataclasses.replace(today.twin, gpu_speeds={"V100": 2.0}))
    ]
    assert ["on machines of the other log" in " ".join(lines) for lines in found] == [False, False, True, False]


def test_machines_are_said_to_change_only_if_they_do():
    (changed, added) = (" ".join(assumptions(compared(**one))) for one in ({"load": 2.0}, {"add_nodes": "1x2"}))
    assert "GPUs instead of" not in changed
    assert "has 4 GPUs instead of 2" in added


def typed(*types, machines="1x2@a100,1x2@h100"):
    """A twin and jobs that ask for these GPU types, two GPUs and 100 s each."""
    count = len(types)
    attributes = {"gpu_types": np.array(types), "wait_s": np.zeros(count)}
    jobs = Workload.from_columns(200 * np.arange(count), [2] * count, [100.0] * count, attributes=attributes)
    return Twin("slurm:x", "slurm", (Pool("all", Cluster.parse(machines).groups),)), jobs


def test_jobs_that_ask_for_gpu_types_that_the_cluster_lacks_are_counted():
    twin, jobs = typed("v100", "V100", "h100", "")
    told = "2 jobs ask for a GPU type other than a100, h100, and run on any"
    assert told in fit_twin(jobs, twin.pools).notes
    found = compare_policies(settings_of(twin, jobs), [], workers=1)
    assert f"{told}." in assumptions(found)
    twin, jobs = typed("a100", "h100", "")
    notes = fit_twin(jobs, twin.pools).notes
    assert not any("ask for" in note for note in notes)
    assert any(note.startswith("1 jobs tell no GPU type: they may run on any") for note in notes)
    twin, jobs = typed("a100", "h100")
    assert not any("GPU type" in note for note in fit_twin(jobs, twin.pools).notes)


@pytest.mark.parametrize("types", [("a100", "h100", "a100"), ("a100", "", "a100"), ("a100", "v100", "a100")])
def test_new_gpus_that_no_job_may_use_are_named(types):
    """A job that tells no type may use them, and so may one whose type the cluster lacks."""
    twin, jobs = typed(*types)
    jobs = jobs.unchecked_columns(arrival_s=[0.0, 1.0, 2.0])  # the last one waits for the first
    found = compare_policies(settings_of(twin, jobs, "4x2@b200"), [], workers=1)
    told, (changed,) = " ".join(assumptions(found)), [line for line in sentences(found) if "+ 4x2@b200" in line]
    none = types[1] == "h100"
    assert ("No job may use GPUs of type b200: all ask for other types." in told) is none
    assert ("GPUs of type b200 run every job as fast" in told) is not none
    assert ("waits are unchanged on average: no job may use GPUs of type b200" in changed) is none


def test_a_short_log_tells_its_days():
    twin, jobs = typed("a100", "h100")
    jobs = jobs.unchecked_columns(arrival_s=[0.0, 3.1 * 86_400])
    found = compare_policies(settings_of(twin, jobs), [], workers=1)
    assert sentences(found)[-1] == "Intervals need two weeks of arrivals, and the log has 3.1 days: there are none."


def test_unusable_changes_are_refused():
    twin, jobs = small()
    with pytest.raises(GpuschedError, match="unknown pool"):
        settings_of(twin, jobs, "gpu:1x2")
    with pytest.raises(GpuschedError, match="--load"):
        settings_of(twin, jobs, load=0.0)


def test_intervals_are_over_weeks():
    weeks = np.repeat([0, 1, 2, 3], 5)
    ratio = wait_ratio(np.full(20, 3.0), np.full(20, 6.0), weeks)
    assert (ratio.mean, ratio.low, ratio.high, ratio.count) == (0.5, 0.5, 0.5, 4)
    assert wait_ratio(np.ones(20), np.zeros(20), weeks) is None


def test_the_table_the_words_and_the_csv_have_the_same_numbers():
    found = compared()
    header, recorded, first, second = comparison_rows(found)
    assert len(header) == len(recorded) == len(first) == len(second)
    assert (recorded[1], first[1], second[1]) == ("recorded", "current", "srtf")
    words = " ".join(sentences(found))
    assert "waits are 96% shorter" in words
    assert "Only in a simulation: srtf reads the run times" in words
    rows = list(csv.DictReader(io.StringIO(comparison_csv(found))))
    assert {row["kind"] for row in rows} == {"twin", "left_out", "all", "group", "tenant"}
    assert [row["policy"] for row in rows if row["kind"] == "twin"] == ["not usable"]  # it has no score
    assert [row["jobs"] for row in rows if row["kind"] == "left_out"] == ["0"]
    (total,) = [row for row in rows if row["policy"] == "srtf" and row["kind"] == "all"]
    assert float(total["mean_wait_s"]) == 17.5
    (bo,) = [row for row in rows if row["policy"] == "current" and row["tenant"] == "bo"]
    assert (bo["jobs"], bo["mean_wait_s"]) == ("2", "999")


def test_names_of_a_log_are_no_formulas_in_the_csv():
    twin, jobs = small()
    jobs.attributes["user"][:] = "=A1"
    rows = csv.DictReader(io.StringIO(comparison_csv(compare_policies(settings_of(twin, jobs), [], workers=1))))
    assert {row["tenant"] for row in rows} == {"", "'=A1"}


def test_the_recorded_value_stands_beside_every_simulated_today():
    twin, jobs = small()
    jobs.attributes["wait_s"][:] = [0.0, 500.0, 100.0, 3.0]
    recorded = compare_policies(settings_of(twin, jobs), [], workers=1).recorded
    assert recorded.wait_s.tolist() == [0.0, 500.0, 100.0, 3.0]
    assert recorded.jct_s.tolist() == [1000.0, 510.0, 110.0, 13.0]
    assert recorded.gpu_hours == pytest.approx((2000 + 10 + 10 + 20) / 3600)
    header, row, *_ = comparison_rows(compare_policies(settings_of(twin, jobs), [], workers=1))
    told = dict(zip(header, row, strict=True))
    assert (told["policy"], told["lost"], told["preemptions"]) == ("recorded", "-", "-")  # the log does not tell them
    assert recorded.busy == pytest.approx(2020 / (2 * 700_000))  # until the last arrival
    del jobs.attributes["wait_s"]  # another log may tell no waits
    assert compare_policies(settings_of(twin, jobs), [], workers=1).recorded is None


def test_jobs_that_no_machines_can_run_are_counted_in_the_table():
    twin, jobs = small()
    jobs.jobs["gpus"][3] = 4
    found = compare_policies(settings_of(twin, jobs), [], workers=1)
    assert comparison_rows(found)[-1][1:3] == ("left out: no pool has their partition and room for their gang", "1")
    assert "no pool has their partition and room" in sentences(found)[0]
    assert "1 jobs of the log are left out" in sentences(found)[0]


def test_the_group_that_loses_most_is_named_although_most_jobs_win():
    found = compared()
    current, srtf = found.outcomes
    worse = srtf._replace(wait_s=np.array([1473.0, 30.0, 30.0, 0.0]))  # the 2-GPU jobs: 50 s before, 736.5 s now
    before = current._replace(wait_s=np.array([100.0, 9990.0, 9990.0, 0.0]))
    told = sentences(dataclasses.replace(found, outcomes=(before, worse)))
    (line,) = [line for line in told if line.startswith("Policy srtf")]
    assert "waits are 92% shorter" in line
    assert "1 of 2 groups by partition and size wait longer, most of all 2 GPUs (2 jobs)" in line.replace("2-2", "2")
    assert "12.3 min instead of 50.0 s (+1,373%)" in line


def test_partitions_that_share_nodes_are_one_pool(tmp_path):
    (tmp_path / "slurm.conf").write_text(CONF)
    slurm, _ = read_slurm_cluster(tmp_path / "slurm.conf")
    big, old = pools_of(slurm)
    assert (big.partitions, old.partitions) == (("big",), ("old", "debug"))
    assert (big.groups, old.groups) == ((NodeGroup(2, 8, "a100"),), (NodeGroup(4, 4, "v100"),))
    policy = known_policy(slurm)
    assert (policy.backfill, policy.bf_interval_s, policy.bf_window_s) == ("none", 60.0, 172_800.0)
    assert policy.aging.decay_half_life_s == 86_400.0


OVERLAP = """NodeName=g[1-4] Gres=gpu:a100:8
NodeName=h[1-2] Gres=gpu:h100:4
PartitionName=batch Nodes=g[1-4] Default=YES
PartitionName=debug Nodes=g4,h[1-2] PriorityTier=3
PartitionName=old Nodes=h2
"""


def overlapping(tmp_path):
    (tmp_path / "slurm.conf").write_text(OVERLAP)
    slurm, _ = read_slurm_cluster(tmp_path / "slurm.conf")
    return pools_of(slurm)


def test_partitions_that_overlap_partly_keep_their_nodes(tmp_path):
    (pool,) = overlapping(tmp_path)
    assert pool.groups == (NodeGroup(4, 8, "a100"), NodeGroup(2, 4, "h100"))
    assert {one.name: (one.nodes, one.tier) for one in pool.sets} == {
        "batch": ("0-3", 1), "debug": ("3-5", 3), "old": ("5", 1),
    }  # fmt: skip
    names = np.array(["batch", "debug", "old", "none"])
    jobs = Workload.from_columns(range(4), [8] * 4, [9] * 4)
    assert pool.room_of(jobs, names).tolist() == [32, 16, 4, 0]
    asked = {"min_nodes": np.ones(4, int), "max_nodes": np.full(4, 2)}  # parts of 4 GPUs, two of them in a large node
    asking = dataclasses.replace(jobs, attributes=asked)
    assert pool.room_of(asking, names).tolist() == [32, 16, 4, 0]
    whole = dataclasses.replace(jobs, attributes=dict.fromkeys(asked, np.ones(4, int)))
    assert pool.room_of(whole, names).tolist() == [32, 8, 0, 0]  # 8 GPUs of one node
    assert node_list([0, 2, 3, 4, 7]) == "0,2-4,7"


def test_a_job_of_several_partitions_goes_to_the_pool_of_the_first_one_with_room():
    pools = pools_of_texts("", ["small=1x4", "mid=2x4", "big=4x4"])
    names = np.array(["small,big", "small,big", "big,mid", "mid,small", "none,mid", "small,mid", "none"])
    jobs = Workload.from_columns(range(7), [4, 5, 1, 8, 1, 9, 1], [9] * 7, attributes={"virtual_cluster": names})
    assert Twin("x", "slurm", pools).pool_of(jobs).tolist() == [0, 2, 2, 1, 1, -1, -1]


MODES = """PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=g[1-2] Gres=gpu:a100:8
PartitionName=low Nodes=g[1-2] Default=YES GraceTime=60
PartitionName=safe Nodes=g[1-2] PreemptMode=OFF
PartitionName=held Nodes=g[1-2] PreemptMode=SUSPEND,GANG
PartitionName=high Nodes=g[1-2] PriorityTier=2
"""


def test_slurm_conf_tells_who_is_preempted_and_after_which_grace(tmp_path):
    (tmp_path / "slurm.conf").write_text(MODES)
    slurm, _ = read_slurm_cluster(tmp_path / "slurm.conf")
    (pool,) = pools_of(slurm)
    assert {one.name: (one.preempt_mode, one.grace_s) for one in pool.sets} == {
        "low": ("requeue", 60.0), "safe": ("off", 0.0), "held": ("off", 0.0), "high": ("requeue", 0.0),
    }  # fmt: skip
    twin = known_policy(slurm).in_twin(Twin("x", "slurm", (pool,)))
    assert "preempt=tier" in twin.scheduler
    names = np.array(["low", "safe", "high"])
    jobs = Workload.from_columns(
        [0, 1, 10], [8, 8, 8], [1_000, 5_000, 50], estimate_s=[2_000, 6_000, 99], attributes={"virtual_cluster": names}
    )
    # "high" comes at 10 and stops "low", which runs on for its grace time and writes a checkpoint; "safe" stays
    (setting,) = settings_of(twin, jobs)
    played = play_policy(setting, "current")
    assert played.preemptions == 1
    assert 60.0 <= played.wait_s[2] <= 100.0
    assert played.wait_s[0] >= 50.0
    assert played.wait_s[1] == 0.0


def test_settings_of_partitions_that_are_not_played_are_noted(tmp_path):
    (tmp_path / "slurm.conf").write_text(MODES.replace("high Nodes", "high QOS=gold Nodes"))
    slurm, _ = read_slurm_cluster(tmp_path / "slurm.conf")
    assert not_played(slurm) == (
        "partition 'held' has PreemptMode=SUSPEND,GANG; its jobs are not preempted in the twin",
        "partition 'high' has the QOS 'gold'; the limits of a partition's QOS are not played",
    )


def test_jobs_run_on_the_nodes_of_their_partition(tmp_path):
    names = np.array(["batch", "batch", "debug", "old", "old"])
    jobs = Workload.from_columns(
        [0, 1, 2, 3, 4], [24, 16, 16, 4, 8], [100, 100, 100, 100, 5], attributes={"virtual_cluster": names}
    )
    twin = Twin("x", "slurm", overlapping(tmp_path))
    assert twin.pool_of(jobs).tolist() == [0, 0, 0, 0, -1]  # the last one is larger than its partition
    (setting,) = settings_of(twin, jobs)
    waits = play_policy(setting, "current").wait_s
    # batch: 24 of 32 GPUs, so the next 16 wait; debug: a node of batch and both others; old: after debug
    assert waits.tolist() == [0.0, 99.0, 0.0, 99.0]
    write_twin(twin, tmp_path / "twin.json")
    assert read_twin(tmp_path / "twin.json").pools == twin.pools


def test_partitions_whose_nodes_fail_are_played_by_the_rules(tmp_path):
    (pool,) = overlapping(tmp_path)
    faults = (Reservation("1", 100.0, 900.0, "3,5", planned=False), Reservation("2", 300.0, 500.0, "0", planned=False))
    rng = np.random.default_rng(3)
    names = rng.choice(["batch", "debug", "old"], 60, p=[0.6, 0.3, 0.1])
    jobs = Workload.from_columns(
        np.sort(rng.integers(0, 900, 60)), rng.choice([1, 2, 4], 60), rng.integers(20, 400, 60), ids=np.arange(60),
        estimate_s=np.full(60, 500.0), attributes={"virtual_cluster": names},
    )  # fmt: skip
    twin = Twin("x", "slurm", (dataclasses.replace(pool, reservations=faults),))
    (problem,) = twin.problems(jobs)
    for backfill in ("none", "easy", "conservative"):
        log = simulate(problem.instance, make_scheduler(f"slurm:backfill={backfill},bf_interval_s=0"))
        validate(problem.instance, log)
        assert np.isfinite(job_times(problem.instance, log)["finish_s"]).all()
    assert play_policy(settings_of(twin, jobs)[0], "current").preemptions > 0


def test_new_machines_go_to_one_partition_or_to_all(tmp_path):
    twin = Twin("x", "slurm", overlapping(tmp_path))
    for text, nodes in (("2x8", ["0-3,6-7", "3-5,6-7", "5,6-7"]), ("old:2x8", ["0-3", "3-5", "5,6-7"])):
        (pool,) = with_nodes(twin, text).pools
        assert [one.nodes for one in sorted(pool.sets, key=lambda one: one.name)] == nodes
    with pytest.raises(GpuschedError, match="pool or partition"):
        with_nodes(twin, "oldest:2x8")


def test_starts_on_other_nodes_reveal_no_order(tmp_path):
    """Job 1 of batch waits while a job of debug starts: it may not run on the nodes of debug."""
    names = np.array(["debug", "batch", "debug", "debug"])
    jobs = Workload.from_columns(
        [0, 1, 2, 3], [8, 8, 8, 8], [10] * 4, attributes={"virtual_cluster": names, "wait_s": np.array([0, 99, 8, 17])}
    )
    (problem,) = Twin("x", "slurm", overlapping(tmp_path)).problems(jobs)
    recorded = Recorded.of(problem.instance.workload)
    limit_s = np.full(4, 10.0)
    assert len(find_pairs(recorded, limit_s, 50.0)) == 3
    found = find_pairs(recorded, limit_s, 50.0, rights=Rights.of(problem.instance))
    assert list(zip(found.winner, found.loser, strict=True)) == [(2, 3)]


def test_machines_are_given_in_exactly_one_way():
    assert pools_of_texts("2x8@A100", [])[0].groups == (NodeGroup(2, 8, "A100"),)
    assert pools_of_texts("", ["a+b=2x8"])[0].partitions == ("a", "b")
    for cluster, partitions in (("", []), ("2x8", ["a=2x8"]), ("", ["2x8"])):
        with pytest.raises(GpuschedError, match="--partition"):
            pools_of_texts(cluster, partitions)


def test_the_commands_lead_from_an_example_to_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["gpusched", "twin", "compare", f"{tmp_path}/twin.json", "--report", f"{tmp_path}/out.html"]
    )

    def call(*words):
        result = CliRunner().invoke(app, ["twin", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.output

    call("example", "--output", tmp_path, "--jobs", 600)
    twin, page = tmp_path / "twin.json", tmp_path / "out.html"
    told = call(
        "fit", f"slurm:{tmp_path / 'sacct.txt'}", "--conf", tmp_path / "slurm.conf", "--output", twin,
    )  # fmt: skip
    assert "rank corr." in told
    held = re.search(r"GPUs held: (\S+) recorded, (\S+) in the twin", told).groups()
    grade = told.splitlines()[0]
    assert grade.startswith("twin: ")
    assert "pairs of jobs" in told  # what was printed while it was fitted comes after the grade
    assert read_twin(twin).pools[0].partitions == ("gpu",)
    told = call(
        "compare", twin, "--schedulers", "current,fifo-skip", "--add-nodes", "4x8@H100", "--load", 1.2, "--workers", 1,
        "--report", page, "--output", tmp_path / "out.csv",
    )  # fmt: skip
    assert "fifo-skip, + 4x8@H100, load x 1.2" in told
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    used = [float(row["held"]) for row in rows if row["setting"] == "today" and row["kind"] == "all"]
    assert tuple(f"{part:.1%}" for part in used[:2]) == held  # the fit and the comparison mean the same
    assert told.splitlines()[0] == grade
    chosen = ("--conf", tmp_path / "slurm.conf", "--scheduler", "slurm:size_weight=9000", "--output", tmp_path / "part")
    result = CliRunner().invoke(app, ["twin", "slurm-conf", *map(str, (twin, *chosen))])
    assert result.output.splitlines()[0] == grade
    (tmp_path / "now.json").write_text(
        '{"time": "2025-03-01T00:00:00", "queued": [{"id": "1", "gpus": 8, "partition": "gpu"}]}'
    )
    told = call(
        "forecast", "--snapshot", tmp_path / "now.json", "--history", f"slurm:{tmp_path / 'sacct.txt'}",
        "--twin", twin, "--futures", 2, "--output", tmp_path / "starts.csv",
    )  # fmt: skip
    assert told.splitlines()[0] == grade
    (word,) = {row["grade"] for row in csv.DictReader((tmp_path / "starts.csv").read_text().splitlines())}
    assert grade.startswith(f"twin: {word.upper()} (")
    wrong = CliRunner().invoke(app, ["twin", "compare", str(twin), "--speed", "H10=2"])
    assert "unknown GPU type 'H10'" in str(wrong.output) + str(wrong.exception)
    wrong = CliRunner().invoke(app, ["twin", "compare", str(twin), "--speed", "a100=2"])
    assert "--speed a100: the run times of the log are those of these GPUs" in str(wrong.output) + str(wrong.exception)
    text = page.read_text(encoding="utf-8")
    for words in (
        "Summary", "Who wins and who loses", "GPU hours", "How far to trust", "vision/v00", '"n23", "new 1"',
        "Log slurm:sacct.txt: jobs arrive from 2025-01-01 00:0", "The twin was fitted to what was before 2025-01-0",
        "&#34;current&#34; is the policy fitted to it: slurm:", "Of the fit: all tenants with the same",
        f"Made on {date.today()} by: gpusched twin compare twin.json --report out.html",
    ):  # fmt: skip
        assert words in text, words
    body = re.sub(r"<[^>]*>", " ", text.partition("<body>")[2])
    assert body.split()[: len(grade.split())] == grade.split()
    assert str(tmp_path) not in text  # pages do not contain paths of this machine
    assert "default-src &#39;none&#39;" in text  # it loads nothing
    rows = [line.split("|") for line in (tmp_path / "sacct.txt").read_text().splitlines()]
    at = rows[0].index("Account")
    (tmp_path / "users.txt").write_text("".join("|".join(row[:at] + row[at + 1 :]) + "\n" for row in rows))
    (tmp_path / "assoc.txt").write_text("Account|User|ParentName|Share\nvision||root|1\n")
    wrong = CliRunner().invoke(
        app, ["twin", "fit", f"slurm:{tmp_path / 'users.txt'}", "--cluster", "24x8", "--assoc",
              str(tmp_path / "assoc.txt")]
    )  # fmt: skip
    assert "--assoc: the log tells no account" in str(wrong.output) + str(wrong.exception)


def test_reports_name_tenants_as_the_log_does_and_tell_no_other_names(tmp_path):
    from gpusched_env.reports.twin import write_twin_report

    twin, jobs = small()
    twin = dataclasses.replace(twin, pools=(dataclasses.replace(twin.pools[0], node_names=("host-of-eve",)),))
    secret = {"original_id": np.full(4, "job-of-eve"), "account": np.full(4, "eves-account")}
    told = dataclasses.replace(jobs, attributes={**jobs.attributes, **secret, "user": np.full(4, "pseudonym-7")})
    found = compare_policies(settings_of(twin, told), ["srtf"], workers=1)
    write_twin_report(found, tmp_path / "out.html")
    for text in ((tmp_path / "out.html").read_text(encoding="utf-8"), comparison_csv(found)):
        assert "pseudonym-7" in text
        assert "job-of-eve" not in text
        assert "eves-account" not in text
    names = Pseudonyms(b"a key of 16 bytes")
    hidden = dataclasses.replace(found, names=names)
    write_twin_report(hidden, tmp_path / "out.html")
    assert "jobs arrive for 8.1 days; the log tells no dates." in (tmp_path / "out.html").read_text(encoding="utf-8")
    for text in ((tmp_path / "out.html").read_text(encoding="utf-8"), comparison_csv(hidden)):
        assert "host-of-eve" not in text
        assert names.name("user", "pseudonym-7") in text
        assert "pseudonym-7" not in text
