"""The card of SJF-BSBF: complete labels, tables and figures of the runs, and measures against the logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import ink

from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import START
from gpusched_env.metrics import job_times
from gpusched_env.scenarios import FAMILIES
from gpusched_env.simulator import simulate
from gpusched_env.support import figures as figures_module
from studies.reproduce import Card, Results, load_card, play_card
from studies.reproduce.report import findings_table
from studies.reproduce.sjf_bsbf import joined, measure

DATA = load_card("sjf-bsbf").data["data"]
SHARING, EXCLUSIVE, PROTOTYPE = DATA["SHARING"], DATA["EXCLUSIVE"], DATA["PROTOTYPE"]
BSBF, FFS, SJF, TIRESIAS = "SJF-BSBF", "SJF-FFS", "SJF", "Tiresias"
XIS = 5


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Card, Results, Path]:
    """The quick card on one draw of everything."""
    card = load_card("sjf-bsbf")
    runs = [run for run in card.runs(quick=True) if run.seed == 200_000]
    card.runs = lambda quick: runs  # type: ignore[method-assign]
    folder = tmp_path_factory.mktemp("sjf-bsbf")
    return card, play_card(card, folder, quick=True, progress=False)[0], folder


def test_a_full_card_has_every_cell_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))  # nothing was fetched
    runs = load_card("sjf-bsbf").runs(quick=False)
    assert len({(tuple(run.labels.items()), run.seed) for run in runs}) == len(runs)
    drawn = 4 * (XIS * len(SHARING) + len(EXCLUSIVE))
    few = 2 * (XIS * len(SHARING) + len(EXCLUSIVE)) + len(SHARING) + len(EXCLUSIVE)
    assert len(runs) == 8 * drawn + 20 * few
    assert {run.labels["part"] for run in runs} == {
        "drawn", "30 jobs in 20 min", "30 jobs in 2 h", "30 jobs, full batch"
    }  # fmt: skip


def test_workloads_that_were_fetched_are_played_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    file = tmp_path / "pollux" / "workloads" / "workload-3.csv"
    file.parent.mkdir(parents=True)
    file.write_text("name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\n")
    runs = [run for run in load_card("sjf-bsbf").runs(quick=False) if run.labels["part"] == "Pollux's own"]
    assert {run.seed for run in runs} == {3}
    assert len(runs) == XIS * len(SHARING) + len(EXCLUSIVE)


def test_tables_and_findings_are_of_these_runs(played: tuple[Card, Results, Path]) -> None:
    card, results, _ = played
    tables = card.tables(results)
    assert all(table.row_count for table in tables)
    cells = [(jobs, xi) for jobs, xi, _ in PROTOTYPE if results.where(part="drawn", jobs=jobs, xi=xi).runs]
    assert tables[-1].row_count == 3 * len(cells) + 2 * 3 + 1 + 2
    found = card.findings(results)
    assert findings_table(found).row_count == len(found)


def test_figures_show_the_ratios_of_these_runs(
    played: tuple[Card, Results, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    card, results, folder = played
    drawn = {}
    save = figures_module.save
    monkeypatch.setattr(
        figures_module, "save", lambda figure, path: (drawn.update({path.name: figure}), save(figure, path))
    )
    paths = card.draw(results, folder)
    assert [path.name for path in paths] == ["interference.png", "load.png", "sizes.png", "prototype.png"]
    for path in paths:
        assert ink(path) > 0.02
    panels = drawn["interference.png"].axes
    assert len(panels) > 1
    for axes in panels:
        words = axes.get_title().split(" jobs, ")
        where = {"part": words[-1], "jobs": int(words[0]) if len(words) > 1 else 30}
        lines = {line.get_label(): line for line in axes.lines}
        own = results.where(**where)
        known = sorted({labels["xi"] for labels in own.labels} - {0.0})
        for policy in (BSBF, FFS, TIRESIAS, "whole batches only", "times as measured"):
            ratios = [
                (
                    own.values("mean_jct_s", policy=policy, xi=xi if policy in SHARING else 0.0)
                    / own.values("mean_jct_s", policy=SJF)
                ).mean()
                for xi in known
            ]
            assert lines[policy].get_xdata().tolist() == known
            assert lines[policy].get_ydata() == pytest.approx(ratios, nan_ok=True)


def test_reductions_follow_from_the_logs(played: tuple[Card, Results, Path]) -> None:
    card, results, _ = played
    instance = FAMILIES["bsbf-sim-240-v1"].plain(jobs=160, xi=1.25).instance(200_000)
    mean = {
        name: float(
            job_times(instance, simulate(instance, make_scheduler(SHARING.get(name) or EXCLUSIVE[name])))[
                "jct_s"
            ].mean()
        )
        for name in (BSBF, FFS, SJF)
    }
    for rival in (FFS, SJF):
        reduction = card.scope(results).value(f"reduction(('drawn', 160), 1.25, {rival!r})")
        assert reduction == pytest.approx(1 - mean[BSBF] / mean[rival])
    # Tiresias plays in rounds, and equally at each xi
    place = card.scope(results, part="drawn", jobs=160, policy=TIRESIAS)
    tiresias = [place.value(f"mean_jct_s(xi={xi})").tolist() for xi in (1.0, 2.0)]
    assert tiresias[0] == tiresias[1] != [mean[SJF]]


def test_where_every_job_fills_the_memory_only_accumulation_lets_them_share(played: tuple[Card, Results, Path]) -> None:
    card, results, _ = played
    found = [finding for finding in card.findings(results) if "fills the memory" in finding.claim]
    assert [finding.holds for finding in found] == [True]
    assert {labels["jobs"] for labels in results.labels} == {30, 160, 240}


@pytest.mark.parametrize("spec", ["sjf", "sjf-bsbf", "sjf-ffs"])
def test_measures_follow_from_the_log(spec: str) -> None:
    instance = FAMILIES["bsbf-physical-30-v1"].plain(xi=1.25).instance(3)
    log = simulate(instance, make_scheduler(spec))
    found, times, gpus = measure(instance, log), job_times(instance, log), instance.workload.jobs["gpus"]
    weight = np.array([(gpus <= 4).mean(), (gpus > 4).mean()])
    for name in ("jct_s", "queueing_s"):
        assert weight @ [found[f"small_{name}"], found[f"large_{name}"]] == pytest.approx(times[name].mean())
    starts = log.events["kind"] == START
    start, end = log.events["time_s"][starts], times["finish_s"][log.events["job"][starts]]
    gangs = [set(log.gang(number).tolist()) for number in np.flatnonzero(starts).tolist()]
    beside = {
        int(log.events["job"][starts][i])
        for i in range(len(gangs))
        for j in range(i)
        if gangs[i] & gangs[j] and end[j] > start[i] >= start[j]
    }
    assert joined(instance, log) == beside
    assert found["company_share"] == len(beside) / 30
    assert (spec == "sjf") == (not beside)
