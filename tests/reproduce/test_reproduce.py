"""Reproductions: the framework resumes and writes files; the card of SJF-BCO has the paper's set-up and trends."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ink, play
from typer.testing import CliRunner

import gpusched_env
from gpusched_env.cli import app
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.event_log import START
from gpusched_env.metrics import Interval, job_times, mean_interval
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.support import figures as figures_module
from gpusched_env.support.consoles import console
from studies.reproduce import CARDS, Card, Finding, Results, Run, load_card, play_card
from studies.reproduce.drawing import legend_above, new_figure
from studies.reproduce.expressions import as_change, plus_minus, quartiles, spread
from studies.reproduce.kway import effective_contenders, straddle_counts
from studies.reproduce.report import SUMMARY_LINES, WIDTH, findings_table, fitted, new_table, summary
from studies.reproduce.sjf_bco import RingAllReduce, measure

# --- the framework


class TwoPolicies(Card):
    """Two schedulers on three draws of tiny-v1."""

    def __init__(self, name: str = "two") -> None:
        super().__init__(name, {"title": "two policies"})

    def runs(self, quick: bool) -> list[Run]:
        scenario = get_scenario("tiny-v1")
        return [
            Run(scenario, name, seed, {"policy": name})
            for name in ("fifo", "srtf")
            for seed in ((1,) if quick else (3, 1, 2))
        ]

    def measure(self, instance: Instance, log) -> dict[str, float]:
        return {"starts": float((log.events["kind"] == START).sum())}

    def findings(self, results: Results) -> list[Finding]:
        return [Finding("srtf is faster", "free", True, "1 < 2"), Finding("fifo is faster", "free", False, "2 > 1")]


def test_an_interrupted_card_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, found = play_card(TwoPolicies(), tmp_path / "whole")
    assert found == 0
    calls = 0

    def interrupted(self, instance, log):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return {"starts": float((log.events["kind"] == START).sum())}

    with monkeypatch.context() as patch:
        patch.setattr(TwoPolicies, "measure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            play_card(TwoPolicies(), tmp_path / "cut")
    assert len(list((tmp_path / "cut" / "runs").iterdir())) == 3
    next((tmp_path / "cut" / "runs").iterdir()).write_text("{", encoding="utf-8")  # damaged: played again
    again, found = play_card(TwoPolicies(), tmp_path / "cut")
    assert found == 2
    assert again.runs == whole.runs
    assert again.labels == whole.labels
    assert play_card(TwoPolicies(), tmp_path / "cut", quick=True)[1] == 2


def test_workers_change_nothing(tmp_path: Path) -> None:
    card = load_card("sjf-bco")
    runs = card.runs(quick=True)[:3]
    card.runs = lambda quick: runs  # type: ignore[method-assign]
    one, two = (play_card(card, tmp_path / str(n), workers=n)[0] for n in (1, 2))
    assert one.runs == two.runs


def test_another_version_plays_all_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(TwoPolicies(), tmp_path, quick=True)
    monkeypatch.setattr("studies.reproduce.running.RESULTS_VERSION", "other")
    assert play_card(TwoPolicies(), tmp_path, quick=True)[1] == 0


def test_two_cards_share_a_folder_and_another_measure_plays_again(tmp_path: Path) -> None:
    assert play_card(TwoPolicies(), tmp_path, quick=True)[1] == 0
    assert play_card(TwoPolicies("renamed"), tmp_path, quick=True)[1] == 0
    assert play_card(TwoPolicies(), tmp_path, quick=True)[1] == 2
    changed = TwoPolicies()
    changed.measure_version = "2"
    assert play_card(changed, tmp_path, quick=True)[1] == 0


def test_means_and_changes_have_an_interval_from_three_values_on(tmp_path: Path) -> None:
    results, _ = play_card(TwoPolicies(), tmp_path)
    values = results.values("mean_jct_s", policy="fifo")
    interval = mean_interval(values)
    text = plus_minus(values)
    assert [float(part) for part in text.split(" ± ")] == pytest.approx([interval.mean, interval.half_width], rel=5e-3)
    few, _ = play_card(TwoPolicies(), tmp_path, quick=True)
    assert "±" not in plus_minus(few.values("mean_jct_s", policy="fifo"))
    assert as_change(Interval(0.5, 0.25, 1.0, 3)) == "-50 % \\[-75, +0]"
    assert as_change(Interval(1.5, 1.0, 2.0, 2)) == "+50 %"


def test_medians_spread_and_files(tmp_path: Path) -> None:
    results, _ = play_card(TwoPolicies(), tmp_path)
    values = results.values("makespan_s", policy="srtf")
    assert values.tolist() == [r.metrics["makespan_s"] for r in sorted(results.where(policy="srtf").runs, key=_seed)]
    assert results.seeds == [1, 2, 3]
    found = quartiles(values)
    assert (found.mean, found.count) == (np.median(values), 3)
    assert found.low in values
    assert found.low <= found.mean <= found.high
    assert spread(values).startswith(f"{np.median(values):,.0f} ")
    results.write_csv(tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["policy"] for row in rows] == ["fifo"] * 3 + ["srtf"] * 3
    assert {row["starts"] for row in rows[:3]} == {"12.0"}
    table = findings_table(TwoPolicies().findings(results))
    assert table.row_count == 2


def test_a_summary_has_a_line_for_each_claim() -> None:
    found = [Finding("jobs end", "free", True, "1"), Finding("jobs end", "busy", False, "2")]
    assert summary(found) == ["holds in  1 of  2: jobs end"]
    assert len(summary([Finding("word " * 60, "free", True, "")], 100)[0]) <= 100


def test_a_summary_of_many_claims_is_still_short() -> None:
    """Claims with the same words before a colon share a line; claims beyond the limit are counted."""
    many = [Finding(f"reported: claim {i}", "free", i < 5, "") for i in range(20)]
    assert summary([*many, Finding("last: one", "free", True, "")]) == [
        "holds in  5 of 20: reported", "holds in  1 of  1: last: one",
    ]  # fmt: skip
    lines = summary([Finding(f"claim {i}", "free", True, "") for i in range(20)])
    assert len(lines) == SUMMARY_LINES
    assert lines[-1] == "and 12 more claims, in the last table"


def test_a_wide_table_is_split_between_columns() -> None:
    """Cells stay whole, headings wrap, every part begins with the first column and no line passes the width."""
    table = new_table("Policies\nnot the paper's", "policy", *(f"a rather long heading {i} \\[h]" for i in range(12)))
    for name in ("first come", "shortest first"):
        table.add_row(name, *(f"{i}.25 \\[-1, +1]" for i in range(12)), end_section=True)
    parts = fitted(table, WIDTH)
    assert len(parts) > 1
    assert sum(len(part.columns) - 1 for part in parts) == 12
    assert str(parts[1].title) == "Policies (more columns)"
    out = console(io.StringIO(), WIDTH)
    for part in parts:
        out.print(part)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= WIDTH
    text = "\n".join(lines)
    assert all(f" {i}.25 [-1, +1] " in text for i in range(12))
    assert text.count("first come") == len(parts)
    assert "\u2026" not in text  # nothing was cut
    small = new_table("small", "policy", "mean")
    assert fitted(small, WIDTH) == [small]


def test_a_legend_keeps_within_its_figure() -> None:
    """Five names in one row would be wider than a figure of one panel."""
    pytest.importorskip("matplotlib")
    figure = new_figure(3.6, 3.8)
    axes = figure.subplots()
    for name in ("SJF-BSBF", "SJF-FFS", "Tiresias", "whole batches only", "times as measured"):
        axes.plot([0, 1], [0, 1], label=name)
    legend_above(figure, axes, 5)
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert len(legend.get_texts()) == 5


def _seed(run) -> int:
    return run.seed


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(GpuschedError, match=r"unknown reproduction 'sjfbco': did you mean 'sjf-bco'"):
        load_card("sjfbco")
    with pytest.raises(GpuschedError, match=r"unknown reproduction 'testbed': did you mean 'testbeds'"):
        load_card("testbed")
    with pytest.raises(GpuschedError, match=r"workers is 0"):
        play_card(TwoPolicies(), tmp_path, workers=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(GpuschedError, match=r"cannot be made"):
        play_card(TwoPolicies(), tmp_path / "file")
    result = CliRunner().invoke(app, ["reproduce", "sjfbco"])
    assert result.exit_code == 2
    assert "did you mean 'sjf-bco'" in result.output


# --- SJF-BCO


def test_the_instance_has_the_set_up_of_the_paper() -> None:
    for seed in range(4):
        instance = RingAllReduce(20, 0.15).instance(seed)
        jobs = instance.workload.jobs
        assert (len(jobs), jobs["gpus"].sum()) == (160, 644)
        charge = jobs["estimate_s"] / 5
        assert 10 <= charge.min() <= charge.max() <= 60
        assert set(instance.cluster.nodes["gpus"].tolist()) <= {4, 8, 16, 32}
        fewer = RingAllReduce(10, 0.60).instance(seed)  # the same jobs, on the first servers
        assert fewer.cluster.nodes["gpus"].tolist() == instance.cluster.nodes["gpus"][:10].tolist()
        assert fewer.iterations.tolist() == instance.iterations.tolist()
        on_one = instance.iteration_s[:, 0, 0]
        assert 0.01 <= on_one.min() <= on_one.max() <= 0.05 * 0.85
        assert fewer.iteration_s[:, 0, 0] == pytest.approx(on_one, rel=1e-8)  # contention is no part of it
    sizes = np.concatenate([RingAllReduce(20, 0.15).instance(seed).cluster.nodes["gpus"] for seed in range(10)])
    assert np.unique(sizes).tolist() == [4, 8, 16, 32]


def test_measures_are_those_of_the_straddle_counts() -> None:
    """Gangs that hold GPUs just after each start; contenders averaged by hand over a short run."""
    instance = RingAllReduce(10, 0.60).instance(5)
    log = play(instance, "bco-rand")
    found = measure(instance, log)
    times = job_times(instance, log)
    assert found["min_jct_s"] == times["jct_s"].min()
    node_of = instance.cluster.node_of_gpu
    starts = np.flatnonzero(log.events["kind"] == START)
    spans = {log.events["job"][i]: np.bincount(node_of[log.gang(i)], minlength=10) for i in starts}
    assert found["straddling_share"] == np.mean([np.count_nonzero(row) > 1 for row in spans.values()])
    moments = np.unique(log.events["time_s"])
    total = weight = 0.0
    for begin, end in itertools.pairwise(moments):
        running = [j for j in spans if times["first_start_s"][j] <= begin < times["finish_s"][j]]
        p = straddle_counts(np.array([spans[j] for j in running]))
        total += (end - begin) * effective_contenders(p, "clamp", 0.5)[p > 0].sum()
        weight += (end - begin) * (p > 0).sum()
    assert found["mean_contenders"] == pytest.approx(total / weight, rel=1e-9)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Results]:
    """Files and output of ``gpusched reproduce sjf-bco --quick``."""
    folder = tmp_path_factory.mktemp("quick")
    result = CliRunner().invoke(app, ["reproduce", "sjf-bco", "--quick", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    results, found = play_card(load_card("sjf-bco"), folder, quick=True)
    assert found == len(results.runs)
    return folder, result.output, results


def test_the_command_prints_the_paper_beside_ours_and_writes_files(quick) -> None:
    folder, output, results = quick
    for words in (
        "Figure 4",
        "Figure 5",
        "Figure 6",
        "Figure 7",
        "1128",
        "Which trends hold",
        "full runs: yes; here: ",
    ):
        assert words in output
    data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert (data["format"], data["card"], data["quick"]) == ("gpusched-reproduction-1", "sjf-bco", True)
    assert len(data["runs"]) == len(results.runs)
    assert {finding["setting"] for finding in data["findings"]} == {
        "queue 0.15",
        "queue 0.60",
        "idle 0.15",
        "idle 0.60",
    }
    with (folder / "results.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == len(results.runs)
    for name in ("figure4_policies", "figure5_kappa", "figure6_servers", "figure7_lambda"):
        assert ink(folder / f"{name}.png") > 0.02


def test_figures_show_the_numbers_of_the_paper_and_the_medians_of_the_runs(
    quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, results = quick
    figures = {}
    monkeypatch.setattr(figures_module, "save", lambda figure, path: figures.update({path.stem: figure}))
    card = load_card("sjf-bco")
    card.draw(results, tmp_path)
    told = card.data["data"]
    common = {"servers": 20, "kappa": "search", "lambda": 1, "rule": "le"}
    makespan = {policy: row[-1] for policy, row in told["MAKESPAN"].items()}
    for axes, metric, paper in zip(
        figures["figure4_policies"].axes, ("makespan_s", "mean_jct_s"), (makespan, told["AVERAGE"]), strict=True
    ):
        bars = [container for container in axes.containers if hasattr(container, "patches")]
        assert [container.get_label() for container in bars] == list(told["POLICIES"].values())
        for container, policy in zip(bars, told["POLICIES"], strict=True):
            ours = [
                np.median(results.values(metric, policy=policy, reading=reading, extra=extra, **common))
                for reading, extra in told["SETTINGS"]
            ]
            assert [bar.get_height() for bar in container.patches] == pytest.approx([paper[policy], *ours])
    for name, numbers in (("figure5_kappa", told["BY_KAPPA"]), ("figure7_lambda", told["BY_LAMBDA"])):
        absolute = figures[name].axes[0]
        lines = {line.get_label(): line.get_ydata().tolist() for line in absolute.lines}
        assert lines["paper"] == numbers
        assert {f"{reading} {extra:.2f}" for reading, extra in told["SETTINGS"]} < set(lines)


def test_an_interrupted_call_says_how_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("studies.reproduce.command.play_card", stopped)
    result = CliRunner().invoke(app, ["reproduce", "sjf-bco", "--quick", "--output", str(tmp_path)])
    assert result.exit_code == 130
    assert f"finished runs are kept in {tmp_path}" in result.stderr


def test_an_installed_package_says_that_reproductions_need_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "studies.reproduce.command", None)  # as where there is no folder
    result = CliRunner().invoke(app, ["reproduce", "hadar"])
    assert result.exit_code == 2
    assert "gpusched reproduce needs a clone of the repository: pip install -e . in the clone" in result.stderr


def test_what_is_installed_needs_nothing_that_is_not() -> None:
    """It imports of the folders that stay in a clone by ``from_clone`` alone."""
    package = Path(gpusched_env.__file__).parent
    folders = [package, *(path for path in package.iterdir() if path.is_symlink())]
    found = {
        (path.stem, str(name).split(".")[0])
        for path in (path for folder in folders for path in folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [])
    }
    assert not {one for one in found if one[1] in ("studies", "soak", "tools")}


def test_trends_hold_on_the_quick_card(quick) -> None:
    """Trends of strong contention with queues, of weak contention
    without, and of cluster size (docs/reproduce_sjf_bco.md).
    """
    *_, results = quick
    holds = {(finding.claim, finding.setting): finding.holds for finding in load_card("sjf-bco").findings(results)}

    def said(words: str, setting: str) -> bool:
        [found] = [value for (claim, at), value in holds.items() if words in claim and at == setting]
        return found

    assert said("SJF-BCO <= LS <= FF <= RAND", "queue 0.60")
    assert said("SJF-BCO <= LS on three", "queue 0.60")
    assert said("the best kappa is at most 4", "queue 0.60")
    assert said("lambda = 8 is at most", "idle 0.15")
    for setting in ("queue 0.15", "queue 0.60", "idle 0.15", "idle 0.60"):
        assert said("slower on 10 servers", setting)
        assert said("least completion", setting)
        assert said("RAND is the worst", setting)


def test_the_published_order_under_strong_contention_and_queues() -> None:
    """Medians over five draws: SJF-BCO <= LS <= RAND."""
    problem = RingAllReduce(20, 0.60)
    ends = [
        [
            float(job_times(instance, play(instance, f"{name}:semantics=queue{more}"))["finish_s"].max())
            for name, more in (("sjf-bco", ",charge=estimate"), ("bco-ls", ",charge=estimate"), ("bco-rand", ""))
        ]
        for instance in (problem.instance(seed) for seed in range(100, 105))
    ]
    bco, ls, rand = np.median(ends, axis=0)
    assert bco <= ls <= rand


def test_a_problem_is_known_by_its_first_draw() -> None:
    known = {RingAllReduce(servers, extra).fingerprint() for servers in (10, 20) for extra in (0.15, 0.6)}
    assert len(known) == 4
    assert RingAllReduce(10, 0.6).fingerprint() in known
    assert isinstance(RingAllReduce(10, 0.6).instance(1).cluster, Cluster)


def test_the_card_of_gavel_draws_every_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more policies than colours."""
    stored = load_card("gavel").data["data"]["STORED"]
    runs = evaluate("tiny-v1", ["fifo"], [200_000])
    runs[0].metrics["tracked_jct_s"] = 60_000.0
    labels = [{"policy": policy, "rate": 2.0} for policy in stored]
    figures = []
    real = figures_module.save
    monkeypatch.setattr(figures_module, "save", lambda figure, path: (figures.append(figure), real(figure, path)))
    (path,) = load_card("gavel").draw(Results(labels, runs * len(labels)), tmp_path)
    assert ink(path) > 0.02
    [axes] = figures[0].axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(stored)
    ours = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert [line.get_xydata().tolist() for line in ours] == [[[2.0, 60_000 / 3_600]]] * len(stored)
    assert len({(line.get_color(), line.get_marker()) for line in ours}) == len(stored)
    dotted = [line.get_ydata().tolist() for line in axes.lines if line.get_linestyle() == ":"]
    assert dotted == [list(values) for values in stored.values()]


def test_the_help_names_every_card() -> None:
    told = CliRunner().invoke(app, ["reproduce", "--help"]).output
    assert [name for name in CARDS if name not in told.replace("\n", " ")] == []
