"""Tables of comparisons: paired ratios, marks and notes, and their renderings in LaTeX, Markdown and JSON."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from scipy.stats import t as student

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import RunResult, comparison_table, evaluate
from gpusched_env.evaluation.tables import DEFAULT_METRICS, compared, metrics_table
from gpusched_env.metrics import COLUMNS, Interval
from gpusched_env.problem.instance import SchedulerInfo
from gpusched_env.support.consoles import Shown, in_latex, in_markdown
from gpusched_env.support.tables import Cell, Heading, Row, Table, from_rich
from gpusched_env.support.units import metric_unit

JCT_H = {"a": [1.0, 2.0, 4.0, 3.0], "b": [1.2, 2.2, 4.1, 3.9], "c": [2.0, 2.0, 5.0, 9.0]}


def runs(jct_h: dict[str, list[float]] = JCT_H, **changes: object) -> list[RunResult]:
    """Return made-up results: the mean JCT of each seed [h]; every other metric is 1."""
    found = []
    for label, values in jct_h.items():
        for seed, value in enumerate(values):
            metrics = {column.name: 1.0 for column in COLUMNS} | {"mean_jct_s": 3600 * value}
            info = SchedulerInfo(label, {}, False)
            bounds = {"mean_jct_s": 1800.0}
            found.append(RunResult("s-v0", "f" * 64, seed, info, metrics, bounds, f"{label}{seed}", spec=label))
    return [dataclasses.replace(run, **changes) for run in found]


def column(table: Table, heading: str) -> list[str]:
    at = [one.heading for one in table.columns].index(heading)
    return [row.cells[at].whole for row in table.rows]


def notes(table: Table) -> str:
    return "\n".join(table.noted())


def test_ratios_are_geometric_means_with_intervals_of_logarithms() -> None:
    """The reference is computed here from the definition."""
    table = comparison_table(runs(), ["mean_jct_s", "ratio"])
    assert [row.cells[0].text for row in table.rows] == ["a", "b", "c", "lower bound"]
    expected = ["1"]
    for other in "bc":
        logs = np.log(np.array(JCT_H[other]) / np.array(JCT_H["a"]))
        half = student.ppf(0.975, 3) * logs.std(ddof=1) / math.sqrt(4)
        mean, low, high = (math.exp(logs.mean() + change) for change in (0, -half, half))
        expected.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
    assert column(table, "x a") == [*expected, ""]
    assert "mean JCT / that of a on the same seeds, geometric mean, 95 % interval" in notes(table)


def test_the_reference_and_the_metric_of_a_ratio_are_chosen() -> None:
    table = comparison_table(runs(), ["mean_jct_s", "ratio", "makespan_s", "ratio"], reference="c")
    assert [one.heading for one in table.columns[1:]] == [
        "mean JCT [h]",
        "x c (mean JCT)",
        "makespan [s]",
        "x c (makespan)",
    ]
    assert re.findall(r"^x c \((.*?)\): (.*?) /", notes(table), re.MULTILINE) == [
        ("mean JCT", "mean JCT"),
        ("makespan", "makespan"),
    ]
    assert [one.key for one in table.columns[1:]] == [
        "mean_jct_s",
        "mean_jct_s_ratio",
        "makespan_s",
        "makespan_s_ratio",
    ]
    assert [row.cells[2].text for row in table.rows][2] == "1"
    assert [row.cells[4].text for row in table.rows[:3]] == ["1.000", "1.000", "1"]
    with pytest.raises(GpuschedError, match="unknown label 'd'"):
        comparison_table(runs(), reference="d")


def test_a_ratio_pairs_only_seeds_that_both_have() -> None:
    some = [run for run in runs() if (run.label, run.seed) != ("b", 3)]
    shown = next(
        row.cells[2] for row in comparison_table(some, ["mean_jct_s", "ratio"], "a").rows if row.cells[0].text == "b"
    )
    assert shown.interval is not None
    assert shown.interval.count == 3
    assert shown.interval.mean == pytest.approx(math.exp(np.log([1.2, 1.1, 4.1 / 4]).mean()))
    assert "the rows are over different seeds" in notes(comparison_table(some))
    assert "different seeds" not in notes(comparison_table(runs()))


def test_a_ratio_to_zero_is_a_dash() -> None:
    table = comparison_table(runs({"a": [0.0, 1.0, 1.0], "b": [1.0, 1.0, 2.0]}), ["mean_jct_s", "ratio"])
    assert column(table, "x a") == ["1", "-", ""]
    assert "- = undefined" in notes(table)
    assert [row["mean_jct_s_ratio"] for row in table.to_rows()[1:]] == [None, None]  # in JSON, no text among numbers
    assert "undefined" not in notes(comparison_table(runs()))


@pytest.mark.parametrize(
    "columns", [["ratio", "mean_jct_s"], ["x_bound", "ratio"], ["mean_jct_s", "ratio", "x_bound", "ratio"]]
)
def test_a_ratio_without_a_metric_before_it_is_refused(columns: list[str]) -> None:
    with pytest.raises(GpuschedError, match="ratio of which metric"):
        comparison_table(runs(), columns)


def test_ratios_of_means_over_finished_jobs_are_dashes_and_refer_to_a_whole_row() -> None:
    """Two schedulers left long jobs unfinished, so their mean JCT is short; one of them meets most deadlines."""
    met = {"a": 0.9, "b": 0.6, "c": 0.7}
    left = [
        dataclasses.replace(
            run,
            metrics=run.metrics
            | {"jobs": 4.0, "finished": 4.0 if run.label == "b" else 3.0, "deadlines_met": met[run.label]},
        )
        for run in runs()
    ]
    table = comparison_table(left, ["mean_jct_s", "ratio", "deadlines_met", "ratio"])
    assert [row.cells[0].text for row in table.rows] == ["a", "c", "b", "lower bound"]
    assert compared(left)[1] == "b"
    assert column(table, "x b (mean JCT)") == ["-", "-", "1", ""]
    assert [cell.split()[0] for cell in column(table, "x b (deadlines met)")[:3]] == ["1.500", "1.167", "1"]
    assert "- = over only those jobs that finished" in notes(table)


def test_a_column_that_is_named_twice_is_refused() -> None:
    with pytest.raises(GpuschedError, match="makespan_s is named twice"):
        comparison_table(runs(), ["makespan_s", "utilisation", "makespan_s"])


def test_a_metric_that_the_runs_lack_is_a_column_of_dashes_with_a_note() -> None:
    """An error after long runs would lose their results."""
    table = comparison_table(runs(), ["deadlines_met", "ratio", "mean_jct_s"])
    assert column(table, "deadlines met [%]") == ["-", "-", "-", ""]
    assert column(table, "x a") == ["1", "-", "-", ""]
    assert "these runs have no deadlines_met" in notes(table)
    assert "these runs have no" not in notes(comparison_table(runs()))


def test_means_over_finished_jobs_are_marked_and_the_share_stays_in_sight() -> None:
    table = comparison_table(changed(runs(), "b", finished=3.0, jobs=4.0))
    assert [row.cells[0].text for row in table.rows if row.cells[0].notes] == ["b"]
    assert "a left jobs unfinished: times and rho are over those that finished" in notes(table)
    assert "finished [%]" in [one.heading for one in table.fitting(50).columns]
    assert "unfinished" not in notes(comparison_table(runs()))
    assert "b left jobs unfinished" in notes(metrics_table(changed(runs(), "b", finished=3.0, jobs=4.0)))


def test_the_table_of_every_metric_compares_what_the_first_table_compares() -> None:
    found = [dataclasses.replace(run, digest=run.label) for run in runs({"b": [2.0] * 5, "a": [1.0] * 5})]
    table = metrics_table(found)
    assert [one.heading for one in table.columns] == ["metric", "a", "b", "lower bound", "meaning"]
    assert not any("±" in cell.whole for row in table.rows for cell in row.cells)
    assert "every seed gives the same schedules" in notes(table)
    assert "every seed" not in notes(metrics_table(runs()))


def test_rows_in_the_order_of_a_metric_without_column_say_so() -> None:
    assert "rows in the order of mean JCT" in notes(comparison_table(runs(), ["makespan_s", "ratio"]))
    assert "in the order of" not in notes(comparison_table(runs(), ["makespan_s", "mean_jct_s"]))
    assert comparison_table(runs(), ["makespan_s", "mean_jct_s"]).sorted_by == 2


@pytest.mark.parametrize(("seeds", "words"), [(2, "2 seeds: an interval means nothing"), (1, "one seed")])
def test_fewer_than_three_seeds_have_no_interval(seeds: int, words: str) -> None:
    table = comparison_table(runs({label: values[:seeds] for label, values in JCT_H.items()}))
    assert words in notes(table)
    assert not any("±" in cell.whole or "[" in cell.whole for row in table.rows for cell in row.cells)
    assert "interval" not in table.caption
    assert "95 % interval" not in notes(table)
    assert "means nothing" not in notes(comparison_table(runs()))


def test_rows_with_equal_event_logs_are_marked() -> None:
    same = [dataclasses.replace(run, digest=f"a{run.seed}") if run.label == "c" else run for run in runs()]
    table = comparison_table(same)
    assert [row.cells[0].notes for row in table.rows] == [["a"], [], ["a"], ()]
    assert "a equal event logs on every seed: a, c" in notes(table)
    almost = [dataclasses.replace(run, digest="other") if (run.label, run.seed) == ("c", 0) else run for run in same]
    assert "equal" not in notes(comparison_table(almost))


def test_there_are_marks_for_any_number_of_notes() -> None:
    labels = {f"{number:02}": [float(number)] for number in range(1, 61)}
    pairs = [dataclasses.replace(run, digest=str(int(run.label) // 2)) for run in runs(labels)]
    marks = [mark for row in comparison_table(pairs).rows for mark in row.cells[0].notes]
    assert len(set(marks)) == 29  # 02 and 03, 04 and 05, ..., 58 and 59
    assert all(marks.count(mark) == 2 for mark in marks)


def test_rows_outside_their_domain_are_marked_with_what_is_missing() -> None:
    needs = {"b": ("GPU sharing",), "c": ("several GPU types", "deadlines")}
    table = comparison_table([dataclasses.replace(run, outside=needs.get(run.label, ())) for run in runs()])
    assert [row.cells[0].notes for row in table.rows] == [[], ["a"], ["b"], ()]
    assert "a outside its domain: the problem lacks GPU sharing\n" in notes(table)
    assert "b outside its domain: the problem lacks several GPU types, deadlines\n" in notes(table)


def test_seeds_that_draw_the_same_problem_count_as_one() -> None:
    table = comparison_table(
        [dataclasses.replace(run, digest=run.label) for run in runs({"a": [1.0] * 5, "b": [2.0] * 5})]
    )
    assert "every seed gives the same schedules" in notes(table)
    assert not any("±" in cell.whole or "[" in cell.whole for row in table.rows for cell in row.cells)
    assert "interval" not in table.caption


def test_seeds_with_equal_schedules_but_other_deadlines_do_not_count_as_one() -> None:
    found = [dataclasses.replace(run, digest=run.label) for run in runs({"a": [1.0] * 3, "b": [2.0] * 3})]
    drawn = [dataclasses.replace(run, metrics=run.metrics | {"deadlines_met": (1 + run.seed) / 4}) for run in found]
    table = comparison_table(drawn, ["deadlines_met"])
    assert "every seed gives" not in notes(table)
    cell = table.rows[0].cells[1]
    assert cell.interval is not None
    assert (cell.interval.mean, cell.interval.count) == (0.5, 3)


def changed(found: list[RunResult], label: str = "", **metrics: float) -> list[RunResult]:
    """Return results with other metrics of one label, or of all."""
    return [
        dataclasses.replace(run, metrics=run.metrics | metrics) if label in ("", run.label) else run for run in found
    ]


def test_nothing_to_compare_is_said_if_nobody_waits_and_all_metrics_are_equal() -> None:
    """A column may differ although the scored metric does not."""
    idle = changed(runs({"a": [1.0, 2.0], "b": [1.0, 2.0]}), mean_queueing_s=0.0)
    assert "nobody waits, whatever the scheduler: nothing to compare" in notes(comparison_table(idle))
    for other in (changed(idle, "b", makespan_s=7.0), changed(runs(), mean_queueing_s=0.0)):
        told = notes(comparison_table(other))
        assert "nobody waits: the rows differ by the GPUs that jobs get" in told
        assert "nothing to compare" not in told
    assert "nobody waits" not in notes(comparison_table(runs()))


def test_runs_with_unfinished_jobs_come_last_and_have_no_ratio() -> None:
    """Their means leave out the long jobs; they are no reference either."""
    some = changed(runs(), "a", jobs=2.0)
    table = comparison_table(some, ["mean_jct_s", "ratio"])
    assert [row.cells[0].text for row in table.rows] == ["b", "c", "a", "lower bound"]
    assert column(table, "x b")[:1] + column(table, "x b")[2:] == ["1", "-", ""]
    assert "- = over only those jobs that finished" in notes(table)
    assert column(comparison_table(some, ["mean_jct_s", "ratio"], "a"), "x a") == ["-", "-", "-", ""]


def test_deadlines_sort_rows_but_the_reference_finished_all_jobs() -> None:
    """The share of deadlines met counts unfinished jobs as missed, so that its ratio is comparable."""
    found = changed(runs(), mean_tardiness_s=2.0)
    for label, met in (("a", 0.9), ("b", 0.6), ("c", 0.3)):
        found = changed(found, label, deadlines_met=met)
    some = changed(found, "a", jobs=2.0)
    table = comparison_table(some, ["deadlines_met", "ratio", "mean_tardiness_s", "ratio", "mean_jct_s", "ratio"])
    assert [row.cells[0].text for row in table.rows] == ["a", "b", "c", "lower bound"]
    assert [row.cells[3].text for row in table.rows] == ["1.500", "1", "0.500", ""]
    assert [row.cells[5].text for row in table.rows] == ["-", "1", "1.000", ""]
    assert [row.cells[7].text for row in table.rows][:2] == ["-", "1"]
    told = notes(comparison_table(some, ["mean_jct_s", "ratio"]))
    assert "rows in the order of deadlines met; b is the best that finished all jobs" in told
    assert "rows in the order" not in notes(table)
    assert "deadlines met; a is the best\n" in notes(comparison_table(found, ["mean_jct_s", "ratio"])) + "\n"


def test_rows_over_different_seeds_are_told() -> None:
    some = [run for run in runs() if (run.label, run.seed) != ("b", 3)]
    assert "over different seeds" in notes(comparison_table(some))
    assert "over different seeds" not in notes(comparison_table(runs()))


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_a_ratio_of_what_is_not_a_positive_number_is_a_dash(value: float) -> None:
    table = comparison_table(changed(runs(), "b", makespan_s=value), ["mean_jct_s", "makespan_s", "ratio"])
    assert column(table, "x a") == ["1", "-", "1.000 [1.000, 1.000]", ""]
    assert "- = undefined" in notes(table)


def test_a_real_comparison_says_who_is_outside_and_equal() -> None:
    found = evaluate("tiny-v1", ["sjf-ffs", "sjf-bsbf", "las"], range(3), progress=False)
    table = comparison_table(found)
    assert "the problem lacks GPU sharing" in notes(table)
    assert re.search(r"equal event logs on every seed: .*sjf-bsbf, sjf-ffs", notes(table))


def test_one_unit_per_metric() -> None:
    assert [metric_unit([value]).sign for value in (35.0, 36.0, 7200.0, 1e7, 0.0, math.nan)] == [*"shhhhh"]


ODD = r"50% & a_b #1 $x$ {y} ~ ^ \ <= | *"


def odd_table() -> Table:
    rows = [
        Row([Cell(ODD, notes=["*", "a"]), Cell("1.5", detail="± 0.2", interval=Interval(1.5, 1.3, 1.7, 5))]),
        Row([Cell("[plain]"), Cell("-", interval=Interval(math.nan, math.nan, math.nan, 5))]),
        Row([Cell("bound"), Cell("1")], bound=True),
    ]
    return Table(
        "caption & more", [Heading("name", text=True), Heading("JCT [h]", key="jct")], rows, notes=[("a", "so_so")]
    )


def test_latex_is_escaped_and_uses_booktabs() -> None:
    text = odd_table().to_latex()
    lines = text.splitlines()
    assert lines[2] == r"\caption{caption \& more}"
    assert r"\begin{tabular}{lr}" in lines
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\midrule", r"\bottomrule"]
    body = [line for line in lines if line.endswith(r"\\")]
    assert all(len(re.findall(r"(?<!\\)&", line)) == 1 for line in body)
    assert body[1] == (
        r"50\% \& a\_b \#1 \$x\$ \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{} $\le$ \textbar{} *"
        r"\textsuperscript{*, a} & 1.5 $\pm$ 0.2 \\"
    )
    assert body[2].startswith("{}[plain]")  # a bracket after a line break would be its argument
    assert r"\textsuperscript{a}~so\_so\par" in lines


def test_markdown_is_escaped() -> None:
    lines = odd_table().to_markdown().splitlines()
    assert lines[2:4] == ["| name | JCT [h] |", "|---|---:|"]
    row = lines[4]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert row.endswith(r"\| \*<sup>\*, a</sup> | 1.5 ± 0.2 |")
    assert lines[-1] == r"<sup>a</sup> so\_so"


def test_nothing_of_a_label_leaves_the_comments() -> None:
    run = dataclasses.replace(runs()[0], name="a --> <b>\nc --!> d").as_dict()
    shown = [Shown(Table("t", [Heading("n")]), (), [run])]
    ends = re.compile(r"<!--.*?--!?>", re.DOTALL)
    assert any("event logs of a" in text for text in ends.findall(in_markdown(shown)))
    assert "<b>" not in ends.sub("", in_markdown(shown))
    before = in_latex(shown).partition(r"\begin{table}")[0]
    assert all(line.startswith("% ") for line in before.splitlines())


def test_a_line_break_stays_in_its_cell_in_latex() -> None:
    text = Table("a\n\nb", [Heading("name", text=True)], [Row([Cell("c\nd")])]).to_latex()
    assert r"\caption{a b}" in text
    assert "c d \\\\" in text.splitlines()


def test_rows_for_json_have_numbers_in_the_unit_of_files() -> None:
    first, second, third = odd_table().to_rows()
    assert first == {"name": ODD, "jct": {"mean": 1.5, "low": 1.3, "high": 1.7, "count": 5}, "notes": ["*", "a"]}
    assert second["jct"] == {"mean": None, "low": None, "high": None, "count": 5}
    assert third == {"name": "bound", "jct": "1"}
    assert Table("", [Heading("n")], [Row([Cell("-")]), Row([Cell("")])]).to_rows() == [{"n": None}, {"n": None}]
    rows = comparison_table(runs()).to_rows()
    assert rows[-1]["x_bound"] == 1
    assert rows[0]["mean_jct_s"]["mean"] == 3600 * 2.5
    assert len(rows[0]) == len(DEFAULT_METRICS) + 1


def test_a_table_fits_a_terminal_and_counts_what_is_hidden() -> None:
    table = comparison_table(runs())
    assert table.fitting(1_000) is table
    narrow = table.fitting(60)
    hidden = len(table.columns) - len(narrow.columns)
    assert hidden > 0
    assert f"{hidden} more columns" in notes(narrow)
    fitted = (table.fitting(width) for width in range(300, 20, -1))
    assert "1 more column in" in notes(next(one for one in fitted if len(one.columns) == len(table.columns) - 1))


def test_tables_for_the_terminal_are_data_too() -> None:
    from rich.table import Table as RichTable

    rich = RichTable("name", "[b]value[/b]")
    rich.columns[1].justify = "right"
    rich.add_row("x_y", "[red]3[/red]")
    assert from_rich(rich).to_markdown() == "| name | value |\n|---|---:|\n| x\\_y | 3 |\n"
