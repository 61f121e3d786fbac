"""The card of Pollux, and the reference of its simulator: it gives the published mean JCTs, and why ours differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from pollux_simulator import Optimus, fewest_nodes, mean_jct_s, place, workload_at
from published import TRACES, here

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from studies.reproduce import Results, load_card
from studies.reproduce.card import Run
from studies.reproduce.pollux import CROWDED, scenario

DATA = load_card("pollux").data["data"]
MEAN_JCT_S, SCHEDULERS = DATA["MEAN_JCT_S"], DATA["SCHEDULERS"]
PUBLISHED_S = {1.0: MEAN_JCT_S["tiresias"][0], **dict(zip(DATA["LOADS"], DATA["AT_LOAD_S"]["tiresias"], strict=True))}


def test_missing_workloads_are_named_with_the_command_that_fetches_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    with pytest.raises(GpuschedError, match=r"workload-1\.csv is wanted.*gpusched traces fetch 'pollux/workloads"):
        load_card("pollux").runs(quick=True)


@here
def test_runs_and_their_scenarios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(TRACES))
    card = load_card("pollux")
    assert len(card.runs(quick=True)) == 14
    runs = card.runs(quick=False)
    assert len(runs) == 39
    assert {run.labels["policy"] for run in runs} == set(SCHEDULERS)
    assert scenario(CROWDED, 1).network.contention.shared_loss == 0.5
    assert scenario("tiresias", 1).workload.elastic == {"rule": "fixed-batch", "speeds": "measured"}


@here
def test_tiresias_and_optimus_are_near_the_published_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(TRACES))
    runs = []
    for policy in ("tiresias", "optimus"):
        for workload in (1, 2, 3, 4, 5, 6):
            labels = {"policy": policy, "workload": workload, "load": 1.0}
            run = Run(scenario(policy, workload), SCHEDULERS[policy], 0, labels)
            (result,) = evaluate(run.problem, [run.scheduler], seeds=[0], progress=False)
            runs.append((labels, result))
            assert result.metrics["mean_jct_s"] == pytest.approx(MEAN_JCT_S[policy][workload - 1], rel=0.08)
    findings = load_card("pollux").findings(Results([labels for labels, _ in runs], [run for _, run in runs]))
    means = [item for item in findings if item.claim.startswith("mean over")]
    assert len(means) == 2
    assert all(item.holds for item in means)


@here
@pytest.mark.parametrize("load", sorted(PUBLISHED_S))
def test_the_reference_gives_the_published_mean_jct(load: float) -> None:
    assert mean_jct_s(workload_at(load)) == pytest.approx(PUBLISHED_S[load], abs=0.5)


@here
def test_times_of_the_fewest_machines_make_tiresias_faster_at_load_2() -> None:
    assert mean_jct_s(workload_at(2.0), fewest=True) == pytest.approx(9_712, abs=1)


@here
def test_the_reference_gives_the_published_mean_jct_of_optimus() -> None:
    """The published simulator draws nothing for Optimus."""
    found = mean_jct_s(workload_at(1, 3), policy=Optimus())
    assert found == pytest.approx(MEAN_JCT_S["optimus"][2], rel=1e-3)


def test_placements_by_hand() -> None:
    assert fewest_nodes(10) == (4, 4, 2)
    free = [1, 3, 0, 3]
    assert place(free, 5) == [1, 1, 1, 3, 3]
    assert free == [1, 0, 0, 1]
