"""Verdicts: ties, sizes, quick runs; the page of claims, made from the cards; expressions of cards; Themis."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpusched_env.baselines import make_scheduler
from gpusched_env.cli import app
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import RunResult
from gpusched_env.metrics import Interval, job_times
from gpusched_env.problem.instance import SchedulerInfo
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from studies.reproduce import CARDS, Card, Finding, Results, load_card
from studies.reproduce.expressions import ANY, Missing, tied
from studies.reproduce.findings import NO, TIE, UNJUDGED, YES, of_full, of_quick, stored
from studies.reproduce.report import summary
from studies.reproduce.themis import Sweeps, gangs, rho_of_apps

DOCS = Path(__file__).parents[2] / "docs"
PAPERS = runpy.run_path(str(DOCS / "papers.py"))


def made_up(values: dict[tuple[str, ...], list[float]], names: tuple[str, ...] = ("policy",)) -> Results:
    """Runs by their labels with these values of ``time_s``, one a seed."""
    labels, runs = [], []
    for own, each in values.items():
        for seed, value in enumerate(each):
            labels.append(dict(zip(names, own, strict=True)))
            runs.append(RunResult("", "", seed, SchedulerInfo("", {}, False), {"time_s": value}, {}, ""))
    return Results(labels, runs)


def test_an_order_that_the_runs_cannot_tell_is_a_tie() -> None:
    assert tied(Interval(1.1, 0.9, 1.3, 5))
    assert not tied(Interval(1.1, 1.05, 1.15, 5))
    assert not tied(Interval(1.1, 0.5, 1.7, 2))  # the interval of two values is no evidence
    assert tied(Interval(1.005, 1.004, 1.006, 5))
    found = Finding("a is faster", "here", False, "+0 %", tie=True)
    assert found.verdict == TIE
    assert summary([found]) == ["holds in  0 of  1 (1 tied): a is faster"]


def test_a_size_is_never_a_tie() -> None:
    """GPU time "5 to 250 % above" with 0.97 [0.94, 1.00] does not reproduce, though 1 is in the interval."""
    times = [100.0, 98.0, 95.0, 96.0]
    metrics = {"app_rho_max": 1.0, "app_rho_jain": 1.0, "mean_jct_s": 1.0, "preemptions_per_job": 1.0}
    labels, runs = [], []
    for scheduler, hours in (("themis-lease", [100.0] * 4), ("gavel", times), ("tiresias", times)):
        for seed, value in enumerate(hours):
            labels.append({"setting": "gangs", "scheduler": scheduler})
            own = metrics | {"gpu_hours": value}
            runs.append(RunResult("", "", seed, SchedulerInfo(scheduler, {}, False), own, {}, ""))
    found = [item for item in load_card("themis").findings(Results(labels, runs)) if item.claim.startswith("GPU time")]
    assert [item.verdict for item in found] == [NO, NO]
    assert found[0].numbers == r"0.97 \[0.94, 1.01]"
    for card in CARDS:  # a claim that names a figure of the paper in a range has no tie
        for spec in load_card(card).data["claims"]:
            for claim in spec.get("claims", [spec]):
                assert "tie" not in claim or "within(" not in claim["holds"], claim["claim"]


def test_a_quick_run_never_contradicts_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the few runs show: each verdict, and in how many settings a claim holds, is that of the full runs."""
    for row in stored():
        for holds, tie in ((True, False), (False, False), (False, True)):
            [told] = of_quick(row["card"], [Finding(row["claim"], row["setting"], holds, "", tie)])
            assert told.verdict == row["verdict"]
    [unknown] = of_quick("dally", [Finding("a claim that nobody stored", "x", True, "")])
    assert unknown.verdict == UNJUDGED
    assert summary([unknown]) == ["not judged: a claim that nobody stored"]
    # As the command prints it: no run, and one setting in which the part shows the opposite
    claim, setting = "20 servers: makespan SJF-BCO <= LS <= FF <= RAND", "queue 0.15"
    monkeypatch.setattr("studies.reproduce.command.play_card", lambda *_: (made_up({("a",): [2.0]}), 0))
    monkeypatch.setattr(
        Card, "findings", lambda self, results: of_quick(self.name, [Finding(claim, setting, False, "9 8 7 6")])
    )
    out = CliRunner().invoke(app, ["reproduce", "sjf-bco", "--quick", "--output", str(tmp_path)]).stdout
    assert f"{summary(of_full('sjf-bco'))[0]}\n" in out
    assert "holds in  2 of  4: 20 servers: makespan" in out
    assert "full runs: yes; here: 9 8 7 6" in out


def test_results_of_a_quick_run_are_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"quick": True, "card": "hadar", "findings": []}), encoding="utf-8")
    with pytest.raises(GpuschedError, match="of a quick run"):
        PAPERS["store"]([path])


def test_the_page_is_made_from_the_cards() -> None:
    """Made again by: python docs/papers.py."""
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == PAPERS["page"]()
    text = PAPERS["page"]()
    for card in CARDS:  # one line for each paper, with the page that tells more
        paper = load_card(card).data["paper"]
        if "verdict" in paper:
            [line] = [line for line in text.splitlines() if line.startswith(f"| [{paper['name']}](#")]
            assert paper["verdict"] in line
            assert any(f"]({page})" in line for page in paper["pages"].values())
    assert text.count("](#") == len({load_card(card).data["paper"]["name"] for card in CARDS})
    for row in stored():
        assert any(pattern.match(row["claim"]) for pattern, _ in PAPERS["claims_of"](row["card"])), row
        assert row["verdict"] in (YES, NO, TIE)


def test_a_metric_is_of_the_labels_of_its_place() -> None:
    results = made_up({("a", "x"): [2.0, 4.0], ("b", "x"): [1.0, 1.0], ("b", "y"): [9.0]}, ("policy", "load"))
    place = Card("test", {"title": ""}).scope(results, policy="a", load="x")
    assert place.value("time_s() / time_s(policy='b')").tolist() == [2.0, 4.0]
    assert place.text("{mean(time_s()):.1f} of {known('load')} {len(time_s(policy='b', load=ANY))}") == "3.0 of ['x'] 3"
    assert place.at(load=ANY).value("known('policy, load', policy=ANY)") == [("a", "x"), ("b", "x"), ("b", "y")]
    with pytest.raises(Missing):
        place.value("time_s(policy='c')")
    places = [each.labels for each in place.places({"load": ["x", "y"], "m, n": "[(1, 2)]", "where": "load == 'y'"})]
    assert places == [{"policy": "a", "load": "y", "m": 1, "n": 2}]


def test_cells_rows_columns_and_claims_without_runs_are_left_out() -> None:
    results = made_up({("a",): [2.0, 4.0]})
    card = Card("test", {
        "title": "",
        "tables": [{
            "title": "times", "rows": [{"for": {"policy": ["a", "b"]}, "head": "{policy}"}],
            "columns": [
                {"head": "paper", "cell": "3"}, {"head": "ours", "cell": "{mean(time_s()):.1f}"},
                {"head": "c", "cell": "{mean(time_s(policy='c')):.1f}"},
            ],
        }],
        "claims": [{
            "for": {"policy": ["a", "b"]}, "claim": "fast", "setting": "{policy}", "holds": "mean(time_s()) < 3",
            "numbers": "{mean(time_s()):g}",
        }],
    })  # fmt: skip
    [table] = card.tables(results)
    assert [str(column.header) for column in table.columns] == ["", "paper", "ours"]
    assert [list(column.cells) for column in table.columns] == [["a"], ["3"], ["3.0"]]
    assert card.findings(results) == [Finding("fast", "a", False, "3")]


def test_rho_is_the_time_in_the_system_over_that_of_an_equal_share() -> None:
    """A rigid gang of g GPUs has work d x g and power g, so T_id is d x N, N = mean number of apps meanwhile."""
    instance = get_scenario("philly-64-v1").instance(0)
    times = job_times(instance, simulate(instance, make_scheduler("fifo")))
    begin, end = instance.workload.jobs["arrival_s"].tolist(), times["finish_s"].tolist()
    expected, jobs = [], range(len(begin))
    for job in jobs:
        span = end[job] - begin[job]
        met = sum(max(0.0, min(end[job], end[i]) - max(begin[job], begin[i])) for i in jobs)
        expected.append(span / (instance.ideal_s[job] * met / span))
    assert rho_of_apps(instance, times["finish_s"]) == pytest.approx(expected, rel=1e-9)


def test_trials_of_a_search_arrive_together_as_one_tenant() -> None:
    instance, plain = Sweeps(gangs(0.9), 5).instance(1), gangs(0.9).instance(1)
    arrivals = instance.workload.jobs["arrival_s"].reshape(-1, 5)
    assert (arrivals == arrivals[:, :1]).all()
    assert arrivals[:, 0].tolist() == plain.workload.jobs["arrival_s"][::5].tolist()
    assert len(instance.tenancy[0].leaves) == len(arrivals)


def test_the_card_of_themis_has_every_cell_once() -> None:
    runs = load_card("themis").runs(quick=False)
    assert len({(tuple(run.labels.items()), run.seed) for run in runs}) == len(runs) == 10 * (6 + 7 + 9)


AXES = {"for", "let", "where"}
PLACED = AXES | {"title", "xlabel", "ylabel", "xlog", "ylog", "xlim", "ylim", "hlines", "vlines", "grey", "plain_ticks"}
PANEL = PLACED | {f"{axis}tick{end}" for axis in "xy" for end in ("s", "_labels", "_size", "_turn")} | {
    "lines", "diagonal", "time_axis", "legend_inside", "legend_below"
}  # fmt: skip
FIELDS = {
    "runs": {"for", "labels", "scenario", "problem", "scheduler", "measure"},
    "tables": {"each", "let", "seeds_of", "title", "corner", "rows", "columns", "cell", "fewest_columns"},
    "rows": AXES | {"head", "cell", "section", "lines"},
    "columns": {"for", "head", "cell"},
    "claims": AXES | {"claim", "paper", "setting", "holds", "tie", "numbers", "claims"},
    "figures": PANEL
    | {"each", "size", "panel_size", "columns", "widths", "sharex", "sharey", "legend", "seeds_of", "panels"},
    "panels": PANEL,
    "lines": {
        "for",
        "along",
        "let",
        "x",
        "y",
        "label",
        "colour",
        "style",
        "styles",
        "kind",
        "width",
        "numbers",
        "spread",
    }
    | {"sideways", "fewest", "head", "cell"},
}


def unknown(section: str, given: object) -> list[str]:
    """Fields that the engine does not know: it would ignore them."""
    if section == "figures" and isinstance(given, dict):
        given = list(given.values())
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        return []
    found = [f"{section}: {name}" for each in given for name in each if name not in FIELDS[section]]
    inner = [(name, each[name]) for each in given for name in FIELDS if name in each]
    return found + [field for name, own in inner for field in unknown(name, own)]


@pytest.mark.parametrize("card", CARDS)
def test_a_card_has_no_field_that_the_engine_ignores(card: str) -> None:
    data = load_card(card).data
    top = {"title", "program", "until", "measure_version", "paper", "data", "let", "derived"}
    assert set(data) <= top | {"runs", "tables", "claims", "figures"}
    assert [field for name in ("runs", "tables", "claims", "figures") for field in unknown(name, data.get(name))] == []
