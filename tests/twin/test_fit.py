"""A twin's policy from files of Slurm, and names that mean something else, too: an account and a partition ``all``."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError, ScenarioError, TraceError
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.partitions import Reservation
from gpusched_env.problem.qos import Qos
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces import read_workload
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
from gpusched_env.twin import Pool, Score, Twin, read_twin, write_twin
from gpusched_env.twin.configuration import known_policy, pools_of
from gpusched_env.twin.example import CLUSTER, POLICY, QOS_CLASSES, example_jobs, example_twin, write_example
from gpusched_env.twin.fitting import Policy, fit_twin
from gpusched_env.twin.inferred_priorities import (
    Aging,
    Rights,
    age_factor,
    features,
    find_pairs,
    fit_weights,
    share_factors,
    without_limited,
)
from gpusched_env.twin.model import grown_tree, leaf_names
from gpusched_env.twin.outages import read_outages, with_outages
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.remaining import find_remainders
from gpusched_env.twin.sacctmgr import read_associations, read_qos
from gpusched_env.twin.scoring import (
    _rows,
    closeness,
    distribution_distance,
    rank_correlation,
    replayed_starts,
    score_replay,
    size_names,
)

NO_BACKFILL = "slurm:age_weight=10000,fair_share_weight=2000,qos_weight=1000,backfill=none"
EASY = POLICY.replace("conservative", "easy")


def log_of(arrival_s, gpus, duration_s, wait_s, **attributes):
    """A log with recorded waits."""
    columns = {name: np.array(values) for name, values in attributes.items()}
    return Workload.from_columns(
        arrival_s, gpus, duration_s, attributes={"wait_s": np.array(wait_s, float), **columns}, name="log"
    )


def one_pool(cluster, scheduler="slurm", **fields):
    return Twin("slurm:x", scheduler, (Pool("all", Cluster.parse(cluster).groups),), **fields)


def on_any_nodes(workload):
    """Return jobs that are known to ask for no nodes, so that a fit does not try whether they do."""
    told = dict.fromkeys(("min_nodes", "max_nodes"), np.zeros(len(workload), np.int64))
    return dataclasses.replace(workload, attributes={**workload.attributes, **told})


def test_the_planted_policy_is_found(tmp_path):
    workload = on_any_nodes(read_workload(f"slurm:{write_example(tmp_path)}"))
    assert len(workload) == 20_000
    twin = fit_twin(workload, example_twin().pools)
    found, planted = make_scheduler(twin.scheduler), make_scheduler(POLICY)
    assert found.backfill == planted.backfill
    assert found.size_factor == planted.size_factor
    assert found.decay_half_life_s == planted.decay_half_life_s
    largest = max(planted.age_weight, planted.fair_share_weight, planted.qos_weight, planted.size_weight)
    for name in ("age_weight", "fair_share_weight", "qos_weight", "size_weight"):
        assert getattr(found, name) == pytest.approx(10_000 * getattr(planted, name) / largest, abs=200)
    for name, value in QOS_CLASSES.items():
        assert twin.classes[name] == pytest.approx(value / 3 * found.qos_weight, abs=0.02 * 10_000)
    assert twin.score.overall.rank_correlation >= 0.95
    assert twin.score.overall.jobs == int((workload.jobs["arrival_s"] >= twin.split_s).sum())
    assert twin.score.held_error < 0.01
    assert "apart" not in twin.notes[0]


@pytest.mark.parametrize("policy", [NO_BACKFILL, EASY])
def test_other_kinds_of_backfill_are_found(tmp_path, policy):
    workload = on_any_nodes(read_workload(f"slurm:{write_example(tmp_path, policy=policy, jobs=6_000)}"))
    twin = fit_twin(workload, example_twin().pools)
    assert make_scheduler(twin.scheduler).backfill == make_scheduler(policy).backfill
    assert twin.score.overall.rank_correlation >= 0.95
    assert "apart" not in twin.notes[0]


def test_an_example_reads_back_and_replays_to_the_same_starts(tmp_path):
    workload = read_workload(f"slurm:{write_example(tmp_path, jobs=1_500)}")
    recorded = Recorded.of(workload)
    (group,) = Cluster.parse(CLUSTER).groups
    assert example_twin().gpus == group.count * group.gpus
    np.testing.assert_array_equal(replayed_starts(example_twin(), workload), recorded.start_s)


def test_the_fit_depends_on_its_arguments_only():
    jobs = example_jobs(400)
    (problem,) = example_twin().problems(jobs)
    waits = job_times(problem.instance, simulate(problem.instance, make_scheduler(problem.spec)))["queueing_s"]
    told = np.empty(len(jobs))
    told[problem.rows] = waits
    log = dataclasses.replace(jobs, attributes={**jobs.attributes, "wait_s": told})
    assert fit_twin(log, example_twin().pools) == fit_twin(log, example_twin().pools)


ASSOC = """Cluster|Account|User|ParentName|Partition|Share|GrpTRES
c1|root|||||
c1|root|root|||1|
c1|vision||root||3|cpu=900,gres/gpu=8
c1|speech||root||1|
c1|vision|ana|||5|gres/gpu=2
c1|vision|ana||debug|9|
c1|vision|bo|||parent|cpu=4
c1|asr||speech||1|
"""


def test_associations_are_a_tree_of_tenants(tmp_path):
    (tmp_path / "assoc.txt").write_text(ASSOC)
    found = read_associations(tmp_path / "assoc.txt")
    assert {tenant.name: (tenant.parent, tenant.weight, tenant.most) for tenant in found.tree} == {
        "root/root": ("", 1.0, None), "vision": ("", 3.0, 8), "speech": ("", 1.0, None),
        "vision/ana": ("vision", 5.0, 2),
        "vision/bo": ("vision", 1.0, None), "asr": ("speech", 1.0, None),
    }  # fmt: skip
    for old, new, told in (
        ("|3|cpu", "|lots|cpu", "field 'Share': 'lots'"),
        ("c1|asr", "c2|asr", "several clusters"),
        ("|speech||1|\n", "|sound||1|\n", "unknown parent"),
        ("Share", "Weight", "no column share; write the file with sacctmgr"),
    ):
        (tmp_path / "bad.txt").write_text(ASSOC.replace(old, new, 1))
        with pytest.raises(TraceError, match=told):
            read_associations(tmp_path / "bad.txt")


def test_an_association_without_an_account_is_refused_with_its_line(tmp_path):
    (tmp_path / "assoc.txt").write_text("Account|User|ParentName|Share\nvis||root|1\n|||1\n")
    with pytest.raises(TraceError, match=r"assoc\.txt, line 3, field 'Account': '': name is empty"):
        read_associations(tmp_path / "assoc.txt")


def test_the_jobs_of_a_user_are_limited_by_the_nearest_account_that_says_so(tmp_path):
    (tmp_path / "assoc.txt").write_text(
        "Account|User|ParentName|Share|GrpJobs|MaxJobs\n"
        "root||||90|7\nvision||root|1|9|5\nnets||vision|1||\nnets|ana|||4|\nnets|bo|||8|2\nnets|cy||||\nasr|di||||\n"
        "asr||root|1||0\n"
    )
    found = read_associations(tmp_path / "assoc.txt")
    assert {tenant.name: tenant.jobs for tenant in found.tree} == {
        "vision": 9, "nets": None, "nets/ana": 4, "nets/bo": 2, "nets/cy": 5, "asr/di": 7, "asr": None,
    }  # fmt: skip


@pytest.mark.parametrize("limit", ["jobs", "most"])
def test_limits_of_users_explain_waits(limit):
    """ana may run one job, or hold 2 GPUs, so her second job waits for the first; nothing else explains that."""
    log = log_of([0, 0, 0], [2, 2, 4], [7200, 600, 60], [0, 7200, 0], account=["v"] * 3, user=["ana", "ana", "bo"])
    tree = Tenants(tree=(Tenant("v"), Tenant("v/ana", "v", **{limit: 1}), Tenant("v/bo", "v")))
    limited, free = (fit_twin(log, one_pool("1x8").pools, fit_part=1, shares=shares) for shares in (tree, None))
    raised = "limits of 1 tenants were raised, because a job of theirs exceeds them: v/ana"
    assert (raised in limited.notes) == (limit == "most")
    assert replayed_starts(limited, log).tolist() == [0, 7200, 0]
    assert replayed_starts(free, log).tolist() == [0, 0, 0]
    assert not any("within 10 minutes: holds" in one.what for one in limited.remainders)
    assert any("within 10 minutes: holds" in one.what and one.jobs == 1 for one in free.remainders)


QOS_TABLE = """Name|Priority|GraceTime|Preempt|PreemptMode|GrpTRES|GrpJobs|MaxTRES|MaxWall|MaxTRESPU|MaxJobsPU
normal|0|00:00:00||cluster|||||gres/gpu=4|2
high|100|00:01:30|normal,low|off|cpu=9,gres/gpu=8,gres/gpu:a100=8|3|gres/gpu=4|1-12:00:00|cpu=3|0
low|0|||||||||
"""


def test_qos_are_read_with_their_limits(tmp_path):
    (tmp_path / "qos.txt").write_text(QOS_TABLE)
    assert read_qos(tmp_path / "qos.txt") == (
        Qos("normal", most_per_user=4, jobs_per_user=2),
        Qos(
            "high", 100.0, most=8, jobs=3, most_per_job=4, max_time_s=129_600.0, preempts=("normal", "low"),
            preempt_mode="off", grace_s=90.0,
        ),
        Qos("low"),
    )  # fmt: skip
    for old, new, told in (
        ("normal|0", "normal|much", "line 2, field 'Priority': 'much'"),
        ("|2\n", "|two\n", "line 2, field 'maxjobspu': 'two'"),
        ("1-12", "noon", "line 3, field 'MaxWall'"),
        ("low|0", "high|0", "'high' is listed twice"),
        ("normal,low", "normal,lower", "unknown QOS 'lower'"),
        ("Priority", "Weight", "no column priority; write the file with sacctmgr"),
    ):
        (tmp_path / "bad.txt").write_text(QOS_TABLE.replace(old, new, 1))
        with pytest.raises(TraceError, match=told):
            read_qos(tmp_path / "bad.txt")


def test_limits_of_qos_explain_waits_and_are_kept_in_the_file(tmp_path):
    """ana may run one job at a time in the QOS low; her third job, of 3 GPUs, raises the limit of GPUs of its QOS."""
    log = log_of(
        [0, 0, 0, 10_000], [2, 2, 4, 3], [7200, 600, 60, 60], [0, 7200, 0, 0], user=["ana", "ana", "bo", "ana"],
        qos=["low", "low", "low", "high"],
    )  # fmt: skip
    listed = Qos("low", jobs_per_user=1), Qos("high", most=2)
    pools = one_pool("1x8").pools
    limited, free = (fit_twin(log, pools, fit_part=1, qos=qos) for qos in (listed, ()))
    assert replayed_starts(limited, log).tolist() == [0, 7200, 0, 10_000]
    assert replayed_starts(free, log).tolist() == [0, 0, 0, 10_000]
    assert limited.tenants is not None
    assert limited.tenants.qos == (listed[0], Qos("high", most=3))
    assert "limits of 1 QOS were raised, because a job of theirs exceeds them: high" in limited.notes
    write_twin(limited, tmp_path / "twin.json")
    assert read_twin(tmp_path / "twin.json") == limited
    other = dataclasses.replace(log, attributes={**log.attributes, "qos": np.array(["low", "low", "new", "new"])})
    assert replayed_starts(limited, other).tolist() == [0, 7200, 0, 10_000]  # QOS that the twin does not know
    untold = dataclasses.replace(log, attributes={name: told for name, told in log.attributes.items() if name != "qos"})
    assert replayed_starts(limited, untold).tolist() == [0, 0, 0, 10_000]


EVENTS = """Cluster|Cluster Nodes|NodeName|TimeStart|TimeEnd|State|Reason|User
c1||n2|2025-03-03T08:00:00|2025-03-03T10:00:00|DOWN*|power|root
c1|n[1-2]||2025-03-03T08:00:00|2025-03-03T10:00:00|||
c1||n1|2025-03-03T11:00:00|Unknown|IDLE+DRAIN|disk|root
c1||n1|2025-03-03T10:59:00|2025-03-03T11:30:00|DOWN|disk|root
c1||n1|2025-03-03T07:00:00|2025-03-03T08:00:00|IDLE+POWERED_DOWN||
c1||n2|2025-03-03T09:30:00|2025-03-03T10:30:00|DRAIN|disk|root
c1||cpu1|2025-03-03T07:00:00|2025-03-03T08:00:00|MAINT||
"""


def test_outages_are_reservations_of_pools(tmp_path):
    (tmp_path / "events.txt").write_text(EVENTS)
    (tmp_path / "slurm.conf").write_text(
        "NodeName=n[1-2] Gres=gpu:8\nNodeName=n0 Gres=gpu:4\nNodeName=cpu1\nPartitionName=p Nodes=n[0-2]\n"
    )
    slurm, _ = read_slurm_cluster(tmp_path / "slurm.conf")
    (pool,), unknown = with_outages(
        pools := pools_of(slurm), read_outages(tmp_path / "events.txt"), "2025-03-03T09:00:00", 9000.0
    )
    numbers = pools[0].numbers
    assert {name: int(pool.cluster.nodes["gpus"][rows[0]]) for name, rows in numbers.items()} == {
        "n0": 4,
        "n1": 8,
        "n2": 8,
    }
    assert unknown == 1
    n1, n2 = (str(numbers[name][0]) for name in ("n1", "n2"))
    spans = {(one.start_s, one.end_s, one.nodes, one.drain) for one in pool.reservations}
    assert spans == {(0.0, 3600.0, n2, False), (7140.0, 9000.0, n1, False), (3600.0, 5400.0, n2, True)}
    assert not any(one.planned for one in pool.reservations)
    twin = Twin("slurm:x", "slurm", (pool,))
    write_twin(twin, tmp_path / "twin.json")
    assert read_twin(tmp_path / "twin.json").pools == (pool,)
    assert twin.without_outages().pools == pools
    told = json.loads((tmp_path / "twin.json").read_text())
    told["pools"][0]["reservations"] = [{"name": "maintenance", "start_s": 50.0, "end_s": 100.0, "nodes": "1"}]
    (tmp_path / "twin.json").write_text(json.dumps(told))
    assert read_twin(tmp_path / "twin.json").pools[0].reservations[0].planned  # known in advance


def test_outages_explain_waits():
    """The second node is down for an hour, so job 1 waits for it; in the log, the node then fails under job 2."""
    log = log_of([0, 10, 5000], [8, 8, 8], [7200, 600, 60], [0, 3590, 2200])
    groups = Cluster.parse("2x8").groups
    faults = (
        Reservation("1", 0.0, 3600.0, "1", planned=False),
        Reservation("2", 4500.0, 9000.0, "1", planned=False),
    )
    knowing, ignorant = (
        fit_twin(log, [Pool("all", groups, reservations=own)], fit_part=1, start=Policy(backfill="none"))
        for own in (faults, ())
    )
    assert replayed_starts(knowing, log).tolist() == [0.0, 3600.0, 7200.0]
    assert replayed_starts(ignorant, log).tolist() == [0.0, 10.0, 5000.0]
    assert not knowing.remainders
    assert ignorant.remainders[0].jobs == 2


def test_a_log_without_waits_does_not_tell_the_kinds_of_backfill_apart():
    log = log_of([0, 100, 200], [1, 2, 3], [50, 50, 50], [0, 0, 0])
    twin = fit_twin(log, one_pool("1x8").pools, fit_part=1)
    assert twin.notes[0].endswith("the log does not tell conservative, none and easy apart")
    assert not twin.score.unseen  # a fit of the whole log holds nothing back
    assert fit_twin(log, one_pool("1x8").pools).score.unseen


def test_starts_reveal_the_order_of_equal_jobs_only():
    # Job 0 holds the GPU until 100; job 2 overtakes job 1, job 3 is larger, and job 4 has a longer limit
    log = log_of([0, 1, 2, 3, 4], [1, 1, 1, 2, 1], [100, 10, 10, 10, 10], [0, 109, 98, 200, 300])
    limit_s = np.array([100.0, 10, 10, 10, 20])
    pairs = find_pairs(Recorded.of(log), limit_s, end_s=105.0)
    assert list(zip(pairs.winner, pairs.loser, pairs.time_s, strict=True)) == [(2, 1, 100.0)]


def test_smaller_jobs_reveal_the_order_too_if_their_parts_fit_where_the_larger_one_ran():
    # Job 0 holds both nodes until 100; then job 1 of 4 + 4 GPUs starts, and the others wait
    log = log_of([0, 1, 1, 1, 1], [16, 8, 4, 8, 4], [100, 50, 50, 50, 50], [0, 99, 149, 149, 149])
    asked = {"min_nodes": np.array([2, 2, 1, 1, 2]), "max_nodes": np.array([2, 2, 1, 1, 2])}
    log = dataclasses.replace(log, attributes={**log.attributes, **asked})
    (problem,) = one_pool("2x8").problems(log)
    recorded, rights = Recorded.of(problem.instance.workload), Rights.of(problem.instance)
    ids = problem.instance.workload.jobs["id"]
    for smaller, losers in ((False, set()), (True, {2, 4})):  # 8 GPUs of one node need not fit on 4 + 4
        pairs = find_pairs(recorded, np.full(5, 100.0), 120.0, 50.0, rights=rights, smaller=smaller)
        assert set(ids[pairs.loser].tolist()) == losers


def test_two_jobs_under_one_limit_reveal_their_order():
    # ana may hold 1 GPU; at 100 her job 2 starts before her job 1, which asks for as many
    log = log_of([0, 1, 2], [1] * 3, [100, 10, 10], [0, 109, 98], user=["ana"] * 3)
    twin = one_pool("1x1", tenants=Tenants(tree=(Tenant("ana", most=1),)), tenant_columns=("user",))
    (problem,) = twin.problems(log)
    recorded = Recorded.of(problem.instance.workload)
    kept = without_limited(problem.instance, recorded, find_pairs(recorded, np.full(3, 100.0), 105.0))
    assert list(zip(kept.winner.tolist(), kept.loser.tolist(), strict=True)) == [(2, 1)]


def test_weights_that_are_noise_are_left_out():
    small = Policy(age_weight=10_000.0, fair_share_weight=3.0, classes={"low": 0.0, "high": 5.0})
    assert small.without_small() == Policy(age_weight=10_000.0)
    large = Policy(age_weight=10.0, classes={"low": 0.0, "high": 5.0})
    assert large.without_small() == large


def test_where_no_job_tells_nodes_the_fit_chooses_whether_gangs_are_split(tmp_path):
    """Jobs of 5 and 6 GPUs on two nodes of 8: those of one node wait for each other, and split ones would not."""
    rng = np.random.default_rng(5)
    jobs = Workload.from_columns(
        np.cumsum(rng.integers(100, 3000, 300)), rng.integers(3, 7, 300), rng.integers(60, 3000, 300).astype(float),
        estimate_s=np.full(300, 3600.0), attributes={"virtual_cluster": np.full(300, "p")},
    )  # fmt: skip
    pools = (Pool("p", Cluster.parse("2x8").groups, ("p",)),)
    for fewest in (True, False):
        planted = Twin("x", "slurm:backfill=none", pools, fewest_nodes=fewest)
        wait_s = replayed_starts(planted, jobs) - jobs.jobs["arrival_s"]
        log = dataclasses.replace(jobs, attributes={**jobs.attributes, "wait_s": wait_s})
        twin = fit_twin(log, pools)
        assert twin.fewest_nodes is fewest
        (note,) = [note for note in twin.notes if note.startswith("the log tells no nodes")]
        assert f"each runs on {'as few nodes as hold it' if fewest else 'any nodes'}. Waits of the fitted" in note
        np.testing.assert_array_equal(replayed_starts(twin, log), jobs.jobs["arrival_s"] + wait_s)
        write_twin(twin, tmp_path / "twin.json")
        assert read_twin(tmp_path / "twin.json") == twin
    told = dict.fromkeys(("min_nodes", "max_nodes"), np.array([0, 0, 0, 4]))
    jobs = Workload.from_columns([0] * 4, [6, 12, 9, 16], [1] * 4, attributes=told)
    asked = Twin("x", "slurm", pools, fewest_nodes=True).asking(jobs)
    assert asked.attributes["max_nodes"].tolist() == [1, 2, 0, 4]  # 9 GPUs do not divide; one job tells its own


def test_the_note_on_nodes_has_the_figures_of_the_replays():
    """A queue that grows: jobs that waited when the fitted part ended count in neither."""
    rng = np.random.default_rng(5)
    jobs = Workload.from_columns(
        np.cumsum(rng.integers(10, 900, 150)), rng.integers(3, 7, 150), rng.integers(60, 3000, 150).astype(float),
        estimate_s=np.full(150, 3600.0),
    )  # fmt: skip
    planted = dataclasses.replace(one_pool("2x8", "slurm:backfill=none"), fewest_nodes=True)
    wait_s = replayed_starts(planted, jobs) - jobs.jobs["arrival_s"]
    lines = list[str]()
    twin = fit_twin(dataclasses.replace(jobs, attributes={"wait_s": wait_s}), planted.pools, tell=lines.append)
    (note,) = [note for note in twin.notes if note.startswith("the log tells no nodes")]
    off = [figure for line in lines for figure in re.findall(r"fitted part are (\S+%) off", line)]
    assert re.findall(r"fitted part are (\S+%) off if gangs are split freely, (\S+%) if not", note) == [tuple(off)]


def test_starts_while_a_limit_holds_reveal_no_order():
    # Job 0 of ana holds 1 GPU until 100; at 50, bo overtakes her job 1, and cy her job 1 and dan's job 3
    log = log_of(
        [0, 1, 2, 3, 4], [1] * 5, [100, 10, 10, 10, 10], [0, 99, 48, 197, 46], user=["ana", "ana", "bo", "dan", "cy"]
    )
    tree = Tenants(
        tree=(Tenant("v", most=9), Tenant("ana", "v", most=1), *(Tenant(name) for name in ("bo", "dan", "cy")))
    )
    (problem,) = one_pool("1x1", tenants=tree, tenant_columns=("user",)).problems(log)
    recorded = Recorded.of(problem.instance.workload)
    pairs = find_pairs(recorded, np.full(5, 100.0), 60.0)
    assert {(2, 1), (2, 3), (4, 1), (4, 3)} <= set(zip(pairs.winner.tolist(), pairs.loser.tolist(), strict=True))
    kept = without_limited(problem.instance, recorded, pairs)
    assert {loser for winner, loser in zip(kept.winner, kept.loser, strict=True) if winner in (2, 4)} == {3}


def test_factors_are_those_of_the_scheduler():
    assert age_factor(np.array([0.0, 350.0]), np.array([650.0, 650.0]), Aging(max_age_s=1000.0)).tolist() == [0.6, 0.25]
    log = log_of([0, 0], [3, 1], [600, 600], [0, 0], user=["ana", "bo"])
    (problem,) = one_pool("1x8", tenants=Tenants(), tenant_columns=("user",)).problems(log)
    factors = share_factors(problem.instance, Recorded.of(problem.instance.workload), np.array([10.0, 700.0]), Aging())
    assert factors[0, 1:].tolist() == [1.0, 1.0]  # nobody has used anything: they share the best rank
    assert factors[1, 1:].tolist() == [0.5, 1.0]  # ana has used more


def test_weights_order_pairs_that_agree():
    log = log_of([0, 1, 2, 3], [1] * 4, [10] * 4, [0, 39, 8, 17], qos=["low", "low", "high", "high"])
    (problem,) = one_pool("1x1").problems(log)
    jobs = problem.instance.workload
    recorded = Recorded.of(jobs)
    pairs = find_pairs(recorded, np.full(4, 10.0), 100.0)
    found = fit_weights(features(problem.instance, recorded, pairs, Aging(), {"qos": jobs.attributes["qos"]}))
    assert found.of["qos high"] > found.of["qos low"]
    assert found.agreed == pytest.approx(2.5 / 3)  # the pair of equal priority counts half


def test_scores_are_those_counted_by_hand():
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == -1.0
    assert rank_correlation(np.array([0.0, 0, 5]), np.array([0.0, 0, 9])) == 1.0
    assert np.isnan(rank_correlation(np.zeros(3), np.arange(3.0)))
    assert distribution_distance(np.array([0.0, 0, 10]), np.array([0.0, 10, 10])) == pytest.approx(1 / 3)
    assert closeness(np.array([0.0, 60]), np.array([60.0, 60])) == pytest.approx(np.log(2) / 2)
    assert size_names(np.array([1, 2, 8, 9, 32, 33]), 8).tolist() == ["1", "2-8", "2-8", "9-32", "9-32", "33+"]
    log = log_of([0, 0, 7200], [4, 4, 4], [7200, 3600, 3600], [0, 7200, 3600])
    score = score_replay(one_pool("1x4"), log, np.array([0.0, 7200, 7200]), 0.0)
    row = score.overall
    assert (row.jobs, row.bias_s, row.error_median_s) == (3, -1200.0, 0.0)
    assert (row.recorded_mean_s, row.predicted_mean_s) == (3600.0, 2400.0)
    assert [group.size for group in score.groups] == ["all", "2-4"]


def test_waits_that_the_twin_does_not_explain_are_counted():
    # Job 1 waits an hour although 4 of 8 GPUs are free and the twin starts it at once; job 2 does not fit
    log = log_of([0, 0, 0], [4, 4, 8], [7200, 600, 60], [0, 3600, 7200], reservation=["", "maint", ""])
    twin = one_pool("1x8")
    start_s = replayed_starts(twin, log)
    assert start_s.tolist() == [0.0, 0.0, 7200.0]
    held, idle, reserved = find_remainders(twin, log, start_s)
    assert (held.jobs, held.hours) == (1, 1.0)
    assert (idle.hours, idle.unit) == (4.0, "GPU h")
    assert reserved.jobs == 1
    small = find_remainders(one_pool("1x6"), log, start_s)
    assert any("no pool" in one.what and one.jobs == 1 for one in small)


def test_unexplained_waits_are_told_apart_by_their_reasons():
    # 4 of 8 GPUs stay free, so jobs 1 to 4 wait for something else: an hour each, job 4 two hours
    reasons = ["None", "JobHeldUser", "JobHeldAdmin", "QOSMaxGRESPerUser", "JobHeldUser"]
    log = log_of(
        [0, 0, 0, 0, 0], [4, 1, 1, 1, 1], [7200, 60, 60, 60, 60], [0, 3600, 3600, 3600, 7200],
        reason=reasons, ineligible_s=[0.0, 0.0, 1800.0, 0.0, 0.0],
    )  # fmt: skip
    twin = one_pool("1x8")
    told = find_remainders(twin, log, replayed_starts(twin, log))
    found = {one.what.rpartition(": ")[2]: (one.jobs, one.hours) for one in told if "within 10 minutes: " in one.what}
    assert found == {
        "held by a user": (2, 3.0),
        "held by an administrator or by Slurm": (1, 1.0),
        "a limit of users, accounts, QOS, partitions or arrays": (1, 1.0),
    }
    assert [(one.jobs, one.hours) for one in told if "not eligible" in one.what] == [(1, 0.5)]


def test_a_twin_is_read_as_it_was_written(tmp_path):
    tenants = Tenants(tree=(Tenant("vis", weight=2.0), Tenant("vis/ana", parent="vis")))
    twin = Twin(
        "slurm:x", "slurm:qos_weight=5", (Pool("gpu", (NodeGroup(4, 8, "A100"),), ("gpu",)),), tenants,
        ("account", "user"), {"high": 5.0}, class_most=5.0, score=Score(held_error=0.5),
    )  # fmt: skip
    write_twin(twin, tmp_path / "twin.json")
    assert repr(read_twin(tmp_path / "twin.json")) == repr(twin)  # NaN differs from itself


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no json", "not a twin"),
        ("[]", "must be a table"),
        ("[" * 100_000, "not a twin"),
        ('{"log": "x", "scheduler": "slurm"}', "'pools' is missing"),
        ('{"log": "x", "scheduler": "slurm", "pools": []}', "pools is empty"),
        ('{"log": "x", "scheduler": "slurm", "pools": [{"name": "a", "groups": []}]}', "no machines"),
        ('{"log": "x", "scheduler": "y", "pools": [{"name": "a", "groups": [{"count": 1, "gpus": 1}]}], "version": 9}',
         "version is 9"),
    ],
)  # fmt: skip
def test_damaged_twins_are_refused_with_one_line(tmp_path, text, told):
    path = tmp_path / "twin.json"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=told) as error:
        read_twin(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_class_counts_the_same_in_a_pool_without_the_highest_class():
    log = log_of([0, 0], [1, 1], [10, 10], [0, 0], qos=["low", "high"], virtual_cluster=["a", "b"])
    pools = (Pool("a", (NodeGroup(1, 2),), ("a",)), Pool("b", (NodeGroup(1, 2),), ("b",)))
    twin = Twin("x", "slurm:qos_weight=90", pools, classes={"low": 30.0, "high": 90.0}, class_most=90.0)
    first, second = twin.problems(log)
    assert make_scheduler(first.spec).qos_weight == 30.0  # the low class is the highest of this pool
    assert make_scheduler(second.spec).qos_weight == 90.0
    assert first.rows.tolist() == [0]
    assert second.rows.tolist() == [1]


def test_faster_machines_shorten_run_times():
    log = log_of([0], [2], [100], [0])
    (problem,) = one_pool("1x2@H100", gpu_speeds={"H100": 2.0}).problems(log)
    times = job_times(problem.instance, simulate(problem.instance, make_scheduler(problem.spec)))
    assert times["jct_s"].tolist() == [50.0]


def test_logs_and_arguments_that_do_not_fit_are_refused():
    bare = Workload.from_columns([0.0], [1], [10.0])
    with pytest.raises(TraceError, match="does not tell when jobs started"):
        fit_twin(bare, one_pool("1x1").pools)
    log = log_of([0, 5], [4, 4], [10, 10], [0, 5])
    with pytest.raises(GpuschedError, match="2 jobs ran on more GPUs, or on more of a node, than their partition has"):
        fit_twin(log, one_pool("1x2").pools)
    with pytest.raises(GpuschedError, match="no job of the log fits"):
        fit_twin(log, one_pool("1x2").pools, anyway=True)
    with pytest.raises(GpuschedError, match="fit_part"):
        fit_twin(log, one_pool("1x4").pools, fit_part=0.0)
    with pytest.raises(ScenarioError, match="exactly one pool"):
        Twin("x", "slurm", (Pool("a", (NodeGroup(1, 1),)), Pool("b", (NodeGroup(1, 1),), ("b",))))


def test_a_user_without_an_account_may_have_the_name_of_an_account():
    names = {"account": ["root", "", "", "bio"], "user": ["root", "root", "", ""]}
    log = log_of([0, 5, 6, 7], [4, 4, 4, 4], [10, 10, 10, 10], [0, 5, 14, 23], **names)
    assert leaf_names(log, ("account", "user")).tolist() == ["root/root", "/root", "all", "bio/"]
    twin = fit_twin(log, one_pool("1x4").pools)
    assert {tenant.name: tenant.parent for tenant in twin.tenants.tree} == {
        "root": "", "root/root": "root", "/root": "", "all": "", "bio": "", "bio/": "bio",
    }  # fmt: skip


def test_a_known_half_life_is_kept_if_the_log_does_not_tell_another_one():
    log = log_of([0, 5, 6], [4, 4, 4], [10, 10, 10], [0, 5, 14], user=["ana", "bo", "ana"])
    start = Policy(aging=Aging(decay_half_life_s=172_800.0))
    assert "decay_half_life_s=172800" in fit_twin(log, one_pool("1x4").pools, start=start).scheduler
    assert "decay_half_life_s" not in fit_twin(log, one_pool("1x4").pools).scheduler


def test_partitions_on_their_own_machines_are_scored_apart():
    jobs = example_jobs(1_200, gpus=64)
    half = np.where(np.arange(len(jobs)) % 2 == 0, "a", "b")
    small = jobs.select(jobs.jobs["gpus"] <= 8)
    small.attributes["virtual_cluster"][:] = half[: len(small)].astype(small.attributes["virtual_cluster"].dtype)
    pools = (Pool("a", (NodeGroup(4, 8),), ("a",)), Pool("b", (NodeGroup(1, 8),), ("b",)))
    truth = dataclasses.replace(example_twin(), pools=pools)
    wait_s = replayed_starts(truth, small) - small.jobs["arrival_s"]
    log = on_any_nodes(dataclasses.replace(small, attributes={**small.attributes, "wait_s": wait_s}))
    twin = fit_twin(log, pools)
    named = {(row.partition, row.size) for row in twin.score.groups}
    assert {("all", "all"), ("a", "all"), ("b", "all"), ("a", "1"), ("b", "1")} <= named
    alone = {row.partition: row for row in twin.score.groups if row.size == "all"}
    assert alone["all"].jobs == alone["a"].jobs + alone["b"].jobs
    assert alone["b"].recorded_mean_s > alone["a"].recorded_mean_s  # a quarter of the machines for as many jobs
    assert twin.score.overall.rank_correlation >= 0.95
    assert any("each pool of machines is played alone" in note for note in twin.notes)


def test_an_account_and_a_partition_that_are_called_all() -> None:
    """Jobs that name nobody are another tenant than the account ``all``, and rows of all jobs than the partition."""
    names = {"account": ["all", "", "all", "b"], "user": ["ann", "", "", "ann"]}
    jobs = Workload.from_columns(
        arrival_s=[0, 1, 2, 3],
        gpus=[1] * 4,
        duration_s=[5] * 4,
        attributes={name: np.array(values) for name, values in names.items()},
    )
    both, one = leaf_names(jobs, ("account", "user")), leaf_names(jobs, ("account",))
    assert both.tolist() == ["all/ann", "/", "all/", "b/ann"]
    assert one.tolist() == ["all", "/", "all", "b"]
    for leaves in (both, one):
        tree = grown_tree(list(dict.fromkeys(leaves.tolist())), set())
        assert len({tenant.name for tenant in tree}) == len(tree)
        Tenants(tree)
    assert leaf_names(jobs, ("user",)).tolist() == ["ann", "all", "all", "ann"]
    rows = [(name, size) for name, size, _ in _rows(np.array(["all", "b"]), np.array(["1", "1"]))]
    assert rows == [
        ("all", "all"), ("all (partition)", "all"), ("b", "all"), ("all", "1"), ("all (partition)", "1"), ("b", "1"),
    ]  # fmt: skip


def test_an_unlimited_age_names_its_key(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("PriorityMaxAge=UNLIMITED\nNodeName=a Gres=gpu:4\nPartitionName=p Nodes=ALL\n")
    with pytest.raises(GpuschedError, match=r"slurm.conf, field 'PriorityMaxAge': 'UNLIMITED': give a time"):
        known_policy(read_slurm_cluster(tmp_path / "slurm.conf")[0])
