"""Results as data: files that round-trip, and tables and figures of given results."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import unit_instance
from metrics_reference import fifo, play, random_instance, shortest_remaining

from gpusched_env import ClusterView, Decision, Scheduler, Start
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import (
    Results,
    RunResult,
    by_scheduler,
    comparison_table,
    evaluate,
    plot_runs,
    print_comparison,
    read_json,
    write_csv,
    write_json,
)
from gpusched_env.evaluation.results import plain
from gpusched_env.metrics import COLUMNS, job_times, lower_bounds, summarise
from gpusched_env.problem.instance import SchedulerInfo
from gpusched_env.support.tables import Table
from gpusched_env.support.units import three_digits, unit_for

PLAYERS = {"fifo": (fifo, False), "sjf": (shortest_remaining, False), "srtf": (shortest_remaining, True)}


def results(seeds: int = 3, **changes: object) -> list[RunResult]:
    """Play the reference scheduler and record it."""
    found = []
    for name, (key, preemptive) in PLAYERS.items():
        for seed in range(seeds):
            instance = random_instance(seed, jobs=30)
            log = play(instance, key, preemptive)
            info = SchedulerInfo(name, {"knob": 8.0, "levels": [1, 2]}, name != "fifo")
            found.append(
                RunResult("s-v0", "f" * 64, seed, info, summarise(instance, log), lower_bounds(instance), log.digest())
            )
    return [dataclasses.replace(result, **changes) for result in found]


def texts(table: Table) -> list[list[str]]:
    header = [column.heading for column in table.columns]
    return [header, *([cell.whole + "*" * ("*" in cell.notes) for cell in row.cells] for row in table.rows)]


def test_json_reads_back(tmp_path: Path) -> None:
    before = results(window=(3, 9))
    write_json(before, tmp_path / "new" / "r.json")
    assert read_json(tmp_path / "new" / "r.json") == Results(before)
    assert isinstance(read_json(tmp_path / "new" / "r.json"), Results)
    assert json.loads((tmp_path / "new" / "r.json").read_text())["results"][0]["window"] == [3, 9]


def test_nan_is_null_and_comes_back(tmp_path: Path) -> None:
    cut = [dataclasses.replace(r, metrics=r.metrics | {"makespan_s": math.nan}) for r in results(1)]
    write_json(cut, tmp_path / "r.json")
    assert "NaN" not in (tmp_path / "r.json").read_text()
    after = read_json(tmp_path / "r.json")
    assert math.isnan(after[0].metrics["makespan_s"])
    assert [r.as_dict() for r in after] == [r.as_dict() for r in cut]


def test_wall_time_is_in_no_comparison_and_no_file(tmp_path: Path) -> None:
    for number, wall in enumerate((0.1, 99.0)):
        write_json(results(1, wall_s=wall), tmp_path / f"{number}.json")
        write_csv(results(1, wall_s=wall), tmp_path / f"{number}.csv")
    assert results(1, wall_s=0.1) == results(1, wall_s=99.0)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()


def test_csv_holds_exact_seconds(tmp_path: Path) -> None:
    before = results(2)
    write_csv(before, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(before)
    assert {row["outside"] for row in rows} == {row["first_job"] for row in rows} == {""}
    for row, result in zip(rows, before, strict=True):
        for column in COLUMNS:
            assert float(row[column.name]) == result.metrics[column.name]
        assert float(row["bound_mean_jct_s"]) == result.bounds["mean_jct_s"]
        assert json.loads(row["parameters"]) == result.scheduler.parameters


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "gpusched-results-1", "results": [{}]}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(GpuschedError, match=r"r\.json"):
        read_json(tmp_path / "r.json")
    with pytest.raises(GpuschedError, match="missing"):
        read_json(tmp_path / "missing.json")


def test_parameters_become_plain_data() -> None:
    given = {"a": (1, 2.5), "b": math.inf, "c": np.float64(3), "d": None, "e": {"x": np.array([1, 2])}, "f": {2, 1}}
    data = plain(given)
    assert data == {"a": [1, 2.5], "b": "inf", "c": 3.0, "d": None, "e": {"x": [1, 2]}, "f": [1, 2]}
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@dataclasses.dataclass
class Greedy(Scheduler):
    """A user's scheduler, which starts jobs in the order in which they wait."""

    most_gpus: int = 8

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        for job in view.waiting:
            if view.gpus[job] <= self.most_gpus:
                yield Start(job, "pack")


def test_labels_are_the_specs_as_typed_or_names_or_canonical_specs() -> None:
    specs = ["tiresias:knob=8", "fifo", "Ours (8 GPUs)=sjf:placement=spread", "learned:general"]
    runs = evaluate("tiny-v1", [*specs, Greedy(), make_scheduler("dally:tuner=off")], [200_000], progress=False)
    own = f"{Greedy.__module__}:Greedy"
    assert [run.label for run in runs] == [*specs[:2], "Ours (8 GPUs)", *specs[3:], own, "dally-manual"]
    assert list(by_scheduler(runs)) == [run.label for run in runs]
    assert runs[2].spec == "sjf:placement=spread"
    again = evaluate("tiny-v1", [run.spec or "" for run in runs], [200_000], progress=False)
    assert [run.digest for run in again] == [run.digest for run in runs]


def test_a_mapping_names_schedulers_and_names_are_in_the_files(tmp_path: Path) -> None:
    runs = evaluate("tiny-v1", {"mine": Greedy(4), "las": "las"}, [200_000], progress=False)
    assert [run.name for run in runs] == ["mine", "las"]
    write_json(runs, tmp_path / "r.json")
    write_csv(runs, tmp_path / "r.csv")
    assert [run.label for run in read_json(tmp_path / "r.json")] == ["mine", "las"]
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["scheduler"] for row in csv.DictReader(stream)] == ["mine", "las"]


def test_a_class_that_no_spec_can_name_is_called_by_its_name() -> None:
    @dataclasses.dataclass
    class Local(Greedy):
        extra: float = 1.0

    runs = evaluate("tiny-v1", [Local(), Local(extra=2.5)], [200_000], progress=False)
    assert [run.label for run in runs] == ["Local", "Local:extra=2.5"]
    assert [run.spec for run in runs] == [None, None]


def test_table_sorts_by_mean_jct_and_ends_with_the_bound() -> None:
    runs = results()
    header, *rows = texts(comparison_table(runs, ["mean_jct_s", "utilisation"]))
    assert header == ["scheduler", "mean JCT [h]", "utilisation [%]"]
    assert [row[0] for row in rows[-1:]] == ["lower bound"]
    mean = {name: np.mean([r.metrics["mean_jct_s"] for r in runs if r.scheduler.name == name]) for name in PLAYERS}
    assert [row[0].rstrip("*") for row in rows[:-1]] == sorted(mean, key=mean.__getitem__)
    shown = float(rows[0][1].split(" ")[0])
    assert shown == pytest.approx(min(mean.values()) / 3600, rel=0.01)
    ratio = np.mean([r.metrics["mean_jct_s"] / r.bounds["mean_jct_s"] for r in runs if r.scheduler.name == "fifo"])
    header, *rows = texts(comparison_table(runs, ["x_bound"]))
    assert header == ["scheduler", "x bound"]
    fifo_row = next(row for row in rows if row[0] == "fifo")
    assert float(fifo_row[1].split(" ")[0]) == pytest.approx(ratio, rel=0.01)
    assert "±" in fifo_row[1]
    assert any(row[0] == "srtf*" for row in rows)


def test_one_seed_has_no_interval() -> None:
    _, *rows = texts(comparison_table(results(1)))
    assert len(rows) == 4  # three schedulers and the bound
    for row in rows:
        assert not any("±" in cell or "nan" in cell for cell in row)


def test_unfinished_runs_come_last_without_a_ratio_to_the_bound() -> None:
    runs = results(1)
    best = min(runs, key=lambda r: r.metrics["mean_jct_s"])
    unfair = dataclasses.replace(best, metrics=best.metrics | {"finished": 3.0, "mean_jct_s": 1.0})
    table = texts(comparison_table([unfair if r is best else r for r in runs], ["mean_jct_s", "x_bound"]))
    assert table[0][1] == "finished [%]"
    assert table[-2][0].rstrip("*") == best.scheduler.name
    assert table[-2][1::2] == ["10.0", "-"]
    assert math.isnan(unfair.against_bound())


def test_incomparable_results_are_refused() -> None:
    runs = results(1)
    other = dataclasses.replace(runs[0], fingerprint="0" * 64)
    for bad, reason in (([], "no results"), ([*runs, other], "several scenarios"), ([*runs, runs[0]], "two results")):
        with pytest.raises(GpuschedError, match=reason):
            comparison_table(bad)
    with pytest.raises(GpuschedError, match="did you mean 'mean_jct_s'"):
        comparison_table(runs, ["mean_jtc_s"])


def test_print_to_a_pipe_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(results(2))
    out = capsys.readouterr().out
    assert "lower bound" in out
    assert "…" not in out


def test_units() -> None:
    assert unit_for([1.0, 119.0]).sign == "s"
    assert unit_for([120.0]).sign == "min"
    assert unit_for([2 * 3600.0, math.nan]).sign == "h"
    assert unit_for([]).sign == "s"
    assert [three_digits(v) for v in (0, 0.01234, 1.234, 12.34, 1234.5, math.nan)] == [
        "0", "0.0123", "1.23", "12.3", "1,234", "-",
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figures_are_saved_and_reproducible(tmp_path: Path, suffix: str) -> None:
    instance = random_instance(0, jobs=40)
    logs = {name: play(instance, key, preemptive) for name, (key, preemptive) in PLAYERS.items()}
    for name in "ab":
        plot_runs(instance, logs, tmp_path / f"{name}.{suffix}", title="three schedulers", window=(0, 30))
    first, second = (tmp_path / f"a.{suffix}").read_bytes(), (tmp_path / f"b.{suffix}").read_bytes()
    assert first[:4] == {"png": b"\x89PNG", "svg": b"<?xm", "pdf": b"%PDF"}[suffix]
    assert len(first) > 5000
    assert first == second


def test_figures_show_the_numbers_of_the_log() -> None:
    instance = random_instance(0, jobs=40)
    log = play(instance)
    jct, use, queue, *_ = plot_runs(instance, {"fifo": log}).axes
    numbers = summarise(instance, log)
    times, shares = jct.lines[0].get_data()
    assert shares[-1] == 1.0
    assert times[-1] == job_times(instance, log)["jct_s"].max()
    assert np.median(times) == pytest.approx(numbers["median_jct_s"])
    when, held = use.lines[0].get_data()
    area = (np.diff(when) * held[:-1]).sum() / (when[-1] - when[0])
    assert area / 100 == pytest.approx(numbers["utilisation"])
    when, waiting = queue.lines[0].get_data()
    assert (np.diff(when) * waiting[:-1]).sum() / when[-1] == pytest.approx(
        numbers["mean_queueing_s"] * 40 / numbers["makespan_s"]
    )


def test_bad_figures_are_refused(tmp_path: Path) -> None:
    instance = random_instance(0, jobs=5)
    with pytest.raises(GpuschedError, match=r"\.png"):
        plot_runs(instance, {"fifo": play(instance)}, tmp_path / "a.gif")
    with pytest.raises(GpuschedError, match="at least one"):
        plot_runs(instance, {})


def test_a_spec_travels_with_its_result_and_older_files_lack_it(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_json(results(1, spec="fifo:knob=8"), path)
    assert [result.spec for result in read_json(path)] == ["fifo:knob=8"] * 3
    data = json.loads(path.read_text())
    for item in data["results"]:
        del item["spec"]
    path.write_text(json.dumps(data))
    assert read_json(path) == results(1)
    assert read_json(path)[0].spec is None


def test_jobs_waiting_are_counted_in_whole_ticks() -> None:
    """Two jobs, one of which waits; and one job that never waits, on an axis from 0 to 1."""
    for durations in ([10.0, 10.0], [10.0]):
        instance = unit_instance([0.0] * len(durations), [1] * len(durations), durations, "1x1")
        figure = plot_runs(instance, {"fifo": play(instance, fifo, preemptive=False)})
        [queue] = [axes for axes in figure.axes if axes.get_ylabel() == "jobs waiting"]
        ticks = [tick for tick in queue.get_yticks() if 0 <= tick <= queue.get_ylim()[1]]
        assert len(ticks) > 1
        assert all(tick == round(tick) for tick in ticks)


def test_a_figure_of_several_seeds_has_the_jobs_of_all() -> None:
    instances = [random_instance(seed, jobs=40) for seed in range(3)]
    logs = [play(instance) for instance in instances]
    jct, use, _, seeds = plot_runs(instances, {"fifo": logs, "again": logs}, ratio=("again", "mean_jct_s")).axes
    assert [list(line.get_xdata()) for line in seeds.lines[:2]] == [[1.0] * 3, [1.0, 1.0]]  # seeds, interval
    pooled = np.sort(np.concatenate([job_times(*one)["jct_s"] for one in zip(instances, logs, strict=True)]))
    times, shares = jct.lines[0].get_data()
    assert np.array_equal(times, pooled)
    assert shares[-1] == 1.0
    when, held = use.lines[0].get_data()
    ends = [summarise(*one)["makespan_s"] for one in zip(instances, logs, strict=True)]
    used = [summarise(*one)["utilisation"] for one in zip(instances, logs, strict=True)]
    areas = np.array(used) * ends
    share_of_bin = (when[1] - when[0]) / (when[-1] + when[1] - when[0])
    assert held.sum() * share_of_bin == pytest.approx(100 * np.mean(areas) / max(ends))
    with pytest.raises(GpuschedError, match="2 event logs of 'fifo' for 3 problems"):
        plot_runs(instances, {"fifo": logs[:2]})


def test_a_figure_says_which_rows_left_jobs_unfinished() -> None:
    """Both for a row and for the reference; without one, it is the first that finished all jobs."""
    instances = [random_instance(seed, jobs=40) for seed in range(3)]
    done = [play(instance) for instance in instances]
    cut = [dataclasses.replace(log, events=log.events[: len(log.events) // 2]) for log in done]
    logs = {"cut": cut, "fifo": done}
    seeds = plot_runs(instances, logs).axes[3]
    assert "that of fifo;" in seeds.get_xlabel()
    assert [text.get_text() for text in seeds.texts] == ["cut left jobs unfinished"]
    seeds = plot_runs(instances, logs, ratio=("cut", "mean_jct_s")).axes[3]
    assert [text.get_text() for text in seeds.texts] == ["cut left jobs unfinished"] * 2


@pytest.mark.parametrize("seeds", [2, 3])
def test_the_panel_of_seeds_shows_the_metric_that_is_named(seeds: int) -> None:
    instances = [random_instance(seed, jobs=30) for seed in range(seeds)]
    logs = {name: [play(one, key, preemptive) for one in instances] for name, (key, preemptive) in PLAYERS.items()}
    spans = {
        name: np.array([summarise(*one)["makespan_s"] for one in zip(instances, mine, strict=True)])
        for name, mine in logs.items()
    }
    panel = plot_runs(instances, logs, ratio=("fifo", "makespan_s")).axes[3]
    points = [line.get_xdata() for line in panel.lines if line.get_marker() == "o"]
    for name, drawn in zip(logs, points, strict=True):
        np.testing.assert_allclose(drawn, spans[name] / spans["fifo"])
    assert panel.get_xlabel().startswith("makespan of each seed / that of fifo")
    assert ("diamond" in panel.get_xlabel()) is (seeds >= 3)
    diamonds = [line for line in panel.lines if line.get_marker() == "D"]
    assert len(diamonds) == (2 if seeds >= 3 else 0)
    lacking = plot_runs(instances, logs, ratio=(None, "deadlines_met")).axes[3]
    assert {text.get_text() for text in lacking.texts} == {"undefined"}
    assert not any(np.isfinite(line.get_xdata()).any() for line in lacking.lines if line.get_marker() == "o")


@pytest.mark.parametrize("label", [r"$\foo$", "$x$", r"a\b", "$", r"\$x\$", "_x"])
def test_labels_are_no_mathematics(label: str, tmp_path: Path) -> None:
    """Matplotlib would refuse the first one, and leave the last one out of the legend."""
    instances = [random_instance(seed, jobs=5) for seed in range(3)]
    logs = [play(instance) for instance in instances]
    figure = plot_runs(
        instances, {label: logs, "b": logs}, tmp_path / "a.svg", title=label, ratio=(label, "mean_jct_s")
    )
    [legend] = figure.legends
    assert len(legend.texts) == 2
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(tmp_path / "b.svg")
    written = (tmp_path / "b.svg").read_text("utf-8")
    assert written.count(f">{label}<") == 3  # title, legend and axis


def test_a_frame_of_pandas_has_a_row_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate("tiny-v1", ["fifo", "mine=las"], [200_000, 200_001], progress=False)
    assert isinstance(found, list)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(GpuschedError, match="pip install pandas"):
        found.to_frame()
    monkeypatch.undo()
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = found.to_frame()
    assert list(frame["scheduler"]) == ["fifo", "fifo", "mine", "mine"]
    assert frame["first_job"].isna().all()
    assert list(frame["mean_jct_s"]) == [run.metrics["mean_jct_s"] for run in found]
