"""Comparisons of schedulers as tables: a row per scheduler, a column per metric, the lower bound as the last row."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.evaluation.results import RunResult
from gpusched_env.metrics import ALL_COLUMNS, COLUMN_OF, LEAST_SEEDS, Interval, mean_interval, paired_ratio
from gpusched_env.support.consoles import console as standard_console
from gpusched_env.support.tables import BOUND, Cell, Heading, Row, Table
from gpusched_env.support.units import Unit, metric_unit, three_digits

if TYPE_CHECKING:
    from rich.console import Console

RATIO: Final = "ratio"  # column: the metric of the column before it / that of the reference, paired by seed
X_BOUND: Final = "x_bound"  # column: mean JCT / its lower bound
FINISHED: Final = "finished_share"  # column: share of the jobs that finished
COMPUTED: Final = (RATIO, X_BOUND, FINISHED)
DEFAULT_METRICS: Final = (
    "mean_jct_s", RATIO, X_BOUND, "p99_jct_s", "makespan_s", "mean_queueing_s", "utilisation", "rho_fair_share",
    "preemptions_per_job",
)  # fmt: skip
# Metrics for scenarios in which gangs contend for links: DEFAULT_METRICS and the share of communication.
LINK_METRICS: Final = (*DEFAULT_METRICS[:5], "communication_share", *DEFAULT_METRICS[5:])
# Metrics that come first if some job has a deadline
DEADLINE_METRICS: Final = ("deadlines_met", "admitted_share", "admitted_met", "mean_tardiness_s")
ONE_FOR_ALL: Final = "every seed gives the same schedules, so all count as one"
PARTIAL: Final = "left jobs unfinished: times and rho are over those that finished; makespan and x bound need all"
ENERGY_METRICS: Final = ("energy_kwh", "idle_energy_share", "cost", "carbon_kg")  # that come last
COUNT_ALL: Final = DEADLINE_METRICS[:3]  # metrics that count unfinished jobs, so that they can be compared without
# Headings that are shorter than the column names, so that a table fits on a terminal of 120 characters
HEADINGS: Final = {
    "communication_share": "communication", "rho_fair_share": "rho <= 1", "preemptions_per_job": "preemptions",
    "mean_jobs_in_system": "mean in system", "admitted_share": "admitted", "admitted_met": "met of admitted",
    "mean_tardiness_s": "tardiness", "energy_kwh": "energy [kWh]", "carbon_kg": "carbon [kg]",
    X_BOUND: "x bound", FINISHED: "finished",
}  # fmt: skip


def usual_metrics(results: Sequence[RunResult], links: bool = False) -> tuple[str, ...]:
    """Return the metrics that a comparison shows by default, with those of contended ``links``."""
    metrics: tuple[str, ...] = LINK_METRICS if links else DEFAULT_METRICS
    if scored_metric(results) == DEADLINE_METRICS[0]:
        metrics = (DEADLINE_METRICS[0], RATIO, *DEADLINE_METRICS[1:], *(name for name in metrics if name != RATIO))
    metrics += tuple(name for name in ENERGY_METRICS if name in results[0].metrics)
    return metrics if len({result.label for result in results}) > 1 else tuple(n for n in metrics if n != RATIO)


def scored_metric(results: Iterable[RunResult]) -> str:
    """Return the metric by which tables sort schedulers: the share of deadlines met if jobs have some, or mean JCT."""
    return DEADLINE_METRICS[0] if all(DEADLINE_METRICS[0] in result.metrics for result in results) else "mean_jct_s"


def in_order(groups: Mapping[str, list[RunResult]]) -> list[str]:
    """Return the labels in the order of the rows of a table: by the share of deadlines met, or by the mean JCT.

    Without deadlines, schedulers that left jobs unfinished are last: a mean over finished jobs leaves out long ones.
    """

    def key(label: str) -> tuple[float, str]:
        name = scored_metric(groups[label])
        mean = mean_interval([run.metrics[name] for run in groups[label]]).mean
        whole = all(run.complete for run in groups[label])
        return (-mean if name == DEADLINE_METRICS[0] else mean if whole else math.inf), label

    return sorted(groups, key=key)


def ratio_metric(metrics: Sequence[str], results: Iterable[RunResult]) -> str:
    """Return the metric of the first ratio among columns; without a ratio, that by which tables sort schedulers."""
    return metrics[metrics.index(RATIO) - 1] if RATIO in metrics else scored_metric(results)


def check_columns(names: Sequence[str], where: str = "") -> None:
    """Refuse an unknown column of :func:`comparison_table`, or a ratio without a metric; ``where`` begins errors."""
    for before, name in itertools.pairwise(["", *names]):
        if name not in COLUMN_OF and name not in COMPUTED:
            raise GpuschedError(where + unknown_name("metric", name, [*COMPUTED, *COLUMN_OF]))
        if name == RATIO and before not in COLUMN_OF:
            raise GpuschedError(f"{where}{RATIO} of which metric? Name it just before, as in mean_jct_s,{RATIO}")
        if name != RATIO and list(names).count(name) > 1:
            raise GpuschedError(f"{where}{name} is named twice; name it once")


def compared(results: Sequence[RunResult], reference: str | None = None) -> tuple[dict[str, list[RunResult]], str]:
    """Return what tables and figures compare: the runs of each label, best first, and the label of the reference.

    Without ``reference``, it is the first label that finished all jobs, or the first one. If every seed gave the same
    results, the runs are those of one seed.
    """
    by_scheduler(results)
    groups = by_scheduler(apart(sorted(results, key=lambda result: result.seed)))
    groups = {label: groups[label] for label in in_order(groups)}
    if reference is not None and reference not in groups:
        raise GpuschedError(f"reference: {unknown_name('label', reference, groups)}")
    whole = (label for label, runs in groups.items() if all(run.complete for run in runs))
    return groups, next(whole, next(iter(groups))) if reference is None else reference


def by_scheduler(results: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Group results by the label of their scheduler; each group is sorted by seed."""
    if not results:
        raise GpuschedError("there are no results to compare")
    if len({(result.fingerprint, result.window) for result in results}) > 1:
        names = ", ".join(sorted({result.scenario for result in results}))
        raise GpuschedError(f"results of several scenarios or tracked windows ({names}): compare one at a time")
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    for label, group in groups.items():
        group.sort(key=lambda result: result.seed)
        if len({result.seed for result in group}) < len(group):
            raise GpuschedError(f"scheduler {label!r} has two results for one seed; name one of them, as in ours=SPEC")
    return groups


def apart(results: Sequence[RunResult]) -> Sequence[RunResult]:
    """Return the results without repetitions: those of one seed if all gave the same schedules, metrics and bounds."""

    def gave(run: RunResult) -> tuple[str, str]:
        return run.digest, repr((run.metrics, run.bounds))  # of a text, NaN equals NaN

    first = {run.label: run for run in reversed(results)}
    if all(gave(run) == gave(first[run.label]) for run in results):
        return [run for run in results if run is first[run.label]]
    return results


def metric_words(metric: str) -> str:
    """Return the name of a metric in words, such as "mean JCT" of ``mean_jct_s``."""
    return HEADINGS.get(metric, metric.removesuffix("_s").replace("_", " ").replace("jct", "JCT"))


def unit_of(name: str, intervals: Iterable[Interval]) -> Unit:
    """Choose the unit of a metric's column: that of times, per cent, or no unit."""
    kind = "share" if name == FINISHED else "" if name == X_BOUND else COLUMN_OF[name].unit
    if kind == "s":
        return metric_unit(interval.mean for interval in intervals)
    return Unit("%", 0.01) if kind == "share" else Unit("", 1.0)


def heading(name: str, unit: Unit) -> Heading:
    """Return the heading of a metric's column; its tooltip is the formula."""
    text = metric_words(name)
    title, better = ("", "min") if name in COMPUTED else (COLUMN_OF[name].formula, COLUMN_OF[name].better)
    return Heading(f"{text} [{unit.sign}]" if unit.sign else text, title=title, better=better or "min", key=name)


def number(interval: Interval, unit: Unit) -> Cell:
    """Return a cell with a mean, and half the width of its interval if there are enough seeds for one."""
    if not math.isfinite(interval.mean):
        return Cell("-", interval=interval)
    half = interval.half_width / unit.seconds
    counted = unit.seconds == 1 and interval.mean == round(interval.mean) and not half > 0
    text = f"{interval.mean:,.0f}" if counted else three_digits(interval.mean / unit.seconds)
    decimals = len(text.partition(".")[2])
    shown = math.isfinite(half) and interval.count >= LEAST_SEEDS
    return Cell(text, interval.mean, detail=f"± {half:,.{decimals}f}" if shown else "", interval=interval)


def comparison_table(
    results: Sequence[RunResult], metrics: Sequence[str] = DEFAULT_METRICS, reference: str | None = None
) -> Table:
    """Return a table that compares schedulers on a scenario.

    Each scheduler has a row, the one with the best mean JCT first (with deadlines: the one that meets most); the last
    row is the lower bound. A cell has the mean over seeds, and "±" half the width of its 95 % interval (Student t) if
    there are at least three seeds. Notes tell which rows have equal schedules, or miss what their scheduler needs.

    Parameters
    ----------
    metrics : the columns: names of :data:`gpusched_env.metrics.COLUMNS`; "ratio", the metric before it divided by that
        of the reference (:func:`gpusched_env.metrics.paired_ratio`); "x_bound", the mean JCT / its lower bound
    reference : label of the scheduler to which ratios refer; None = that of :func:`compared`
    """
    check_columns(metrics)
    groups, first = compared(results, reference)
    given, results = len(results), [run for runs in groups.values() for run in runs]
    order, scored = list(groups), scored_metric(results)
    if FINISHED not in metrics and not all(run.complete for run in results):
        metrics = (FINISHED, *metrics)
    marks, notes = _notes(groups, order)
    lacking = [name for name in metrics if name in COLUMN_OF and any(name not in run.metrics for run in results)]
    if lacking:
        notes.append(("", f"these runs have no {', '.join(lacking)}"))
    if len(results) < given:
        notes.append(("", ONE_FOR_ALL))
    if scored not in metrics and len(order) > 1:
        best = f"; {first} is the best{' that finished all jobs' * (first != order[0])}"
        best *= RATIO in metrics and reference is None
        notes.append(("", f"rows in the order of {metric_words(scored)}{best}"))
    columns, bounds = [Heading("scheduler", text=True)], [Cell(BOUND)]
    rows = {label: [Cell(label, notes=marks[label])] for label in order}
    for before, name in itertools.pairwise(["", *metrics]):
        if name == RATIO:
            column, cells, bound, note = _ratio_column(groups, first, before, list(metrics).count(RATIO) > 1)
            notes.append(("", note))
        else:
            column, cells, bound = _column(name, groups, results)
        columns.append(column)
        bounds.append(bound)
        for label in order:
            rows[label].append(cells[label])
    body = [*(Row(rows[label]) for label in order), Row(bounds, bound=True)]
    by = list(metrics).index(scored) + 1 if scored in metrics else -1
    return Table(_caption(results), columns, body, sorted_by=by, notes=list(dict.fromkeys(notes)))


def metrics_table(results: Sequence[RunResult]) -> Table:
    """Return a table with a row for each metric, a column for each scheduler, the lower bound, and the meanings."""
    groups, _ = compared(results)
    given, results = len(results), [run for runs in groups.values() for run in runs]
    names = [Heading(label) for label in (*groups, BOUND)]
    rows = []
    for column in (column for column in ALL_COLUMNS if column.name in results[0].metrics):
        words, cells, bound = _column(column.name, groups, results)
        rows.append(Row([Cell(words.heading), *cells.values(), bound, Cell(column.formula)]))
    columns = [Heading("metric", text=True), *names, Heading("meaning", text=True)]
    partial = [label for label, runs in groups.items() if not all(run.complete for run in runs)]
    notes = [("", f"{', '.join(partial)} {PARTIAL}")] if partial else []
    notes += [("", ONE_FOR_ALL)] if len(results) < given else []
    return Table("every metric", columns, rows, sortable=False, notes=notes)


def print_comparison(
    results: Sequence[RunResult], metrics: Sequence[str] = DEFAULT_METRICS, console: Console | None = None
) -> None:
    """Print :func:`comparison_table`, with the columns that fit the console; None = standard output."""
    out = console or standard_console()
    out.print(comparison_table(results, metrics).fitting(out.width))


def _column(
    name: str, groups: Mapping[str, list[RunResult]], results: Sequence[RunResult]
) -> tuple[Heading, dict[str, Cell], Cell]:
    """Return the heading of a column, its cell for each scheduler, and that of the bound."""
    means = {label: mean_interval([_value(name, run) for run in runs]) for label, runs in groups.items()}
    unit = unit_of(name, means.values())
    one_per_seed = list({result.seed: result for result in results}.values())
    bounds = [run.bounds[name] for run in one_per_seed if name in run.bounds]
    bound = number(mean_interval(bounds), unit) if bounds else Cell("1", 1.0) if name == X_BOUND else Cell("")
    return heading(name, unit), {label: number(mean, unit) for label, mean in means.items()}, bound


def _value(name: str, run: RunResult) -> float:
    if name == X_BOUND:
        return run.against_bound()
    return run.metrics["finished"] / run.metrics["jobs"] if name == FINISHED else run.metrics.get(name, math.nan)


def _ratio_column(
    groups: Mapping[str, list[RunResult]], first: str, metric: str, several: bool
) -> tuple[Heading, dict[str, Cell], Cell, str]:
    """Return what :func:`_column` returns, for ratios to ``first``, and their note; ``several`` name their metrics."""
    words = f"{metric_words(metric)} / that of {first} on the same seeds"
    head = f"x {first}" + f" ({metric_words(metric)})" * several
    cells = {label: _ratio(runs, groups[first], metric) for label, runs in groups.items()}
    how = ", 95 % interval (Student t of the logarithms)" * (len(groups[first]) >= LEAST_SEEDS)
    if not all(_comparable(runs, metric) for runs in groups.values()):
        how += "; - = over only those jobs that finished, so long ones are missing"
    elif any(cell.text == "-" for cell in cells.values()):
        how += "; - = undefined"
    return Heading(head, title=words, key=f"{metric}_{RATIO}"), cells, Cell(""), f"{head}: {words}, geometric mean{how}"


def _ratio(runs: Sequence[RunResult], reference: Sequence[RunResult], metric: str) -> Cell:
    """Return a paired ratio over the seeds of both; a dash if a value is not positive, or they are not comparable."""
    if not _comparable((*runs, *reference), metric):
        return Cell("-")
    if runs is reference:
        return Cell("1", 1.0, interval=Interval(1.0, 1.0, 1.0, len(runs)))
    other = {run.seed: _value(metric, run) for run in reference}
    pairs = [(_value(metric, run), other[run.seed]) for run in runs if run.seed in other]
    if not pairs or not all(0 < value < math.inf for pair in pairs for value in pair):
        return Cell("-")
    ratio = paired_ratio(*zip(*pairs, strict=True))
    detail = f"[{ratio.low:.3f}, {ratio.high:.3f}]" if ratio.count >= LEAST_SEEDS else ""
    return Cell(f"{ratio.mean:.3f}", ratio.mean, detail=detail, interval=ratio)


def _comparable(runs: Sequence[RunResult], metric: str) -> bool:
    """Return whether a metric is over the same jobs in every run: all finished, or it also counts the others."""
    return metric in COUNT_ALL or all(run.complete for run in runs)


def _notes(
    groups: Mapping[str, list[RunResult]], order: Sequence[str]
) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the marks of each scheduler, and the notes: what it reads, what it lacks, whose schedules are equal."""
    alike: dict[tuple[str, ...], list[str]] = {}
    lacking: dict[tuple[str, ...], list[str]] = {}
    for label in order:
        alike.setdefault(tuple(run.digest for run in groups[label]), []).append(label)
        lacking.setdefault(tuple(dict.fromkeys(need for run in groups[label] for need in run.outside)), []).append(
            label
        )
    knowing = [label for label in order if groups[label][0].scheduler.clairvoyant]
    told = [(knowing, "*", "reads true run times")] if knowing else []
    letters = (string.ascii_lowercase[n % 26] * (n // 26 + 1) for n in itertools.count())
    for needs, labels in lacking.items():
        if needs:
            told.append((labels, next(letters), f"outside its domain: the problem lacks {', '.join(needs)}"))
    partial = [label for label in order if not all(run.complete for run in groups[label])]
    if partial:
        told.append((partial, next(letters), PARTIAL))
    same = [labels for labels in alike.values() if len(labels) > 1]
    told += [(labels, next(letters), f"equal event logs on every seed: {', '.join(labels)}") for labels in same]
    marks = {label: [mark for labels, mark, _ in told if label in labels] for label in order}
    return marks, [*((mark, text) for _, mark, text in told), *(("", text) for text in _warnings(groups))]


def _warnings(groups: Mapping[str, list[RunResult]]) -> Iterable[str]:
    """Yield what makes a whole table mean little."""
    runs = [run for group in groups.values() for run in group]
    seeds = len({run.seed for run in runs})
    if all(run.metrics["mean_queueing_s"] == 0 for run in runs):
        values = {repr([(run.seed, run.metrics) for run in group]) for group in groups.values()}
        if len(values) == 1:
            yield "nobody waits, whatever the scheduler: nothing to compare; raise the load or take fewer GPUs"
        else:
            yield "nobody waits: the rows differ by the GPUs that jobs get, not by the order of jobs"
    if len({tuple(run.seed for run in group) for group in groups.values()}) > 1:
        yield "the rows are over different seeds"
    if 1 < seeds < LEAST_SEEDS:
        yield f"{seeds} seeds: an interval means nothing, so there is none; give at least {LEAST_SEEDS}"
    elif seeds == 1:
        yield "one seed: there is no interval"


def _caption(results: Sequence[RunResult]) -> str:
    seeds = sorted({result.seed for result in results})
    some = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{results[0].scenario}: {some}{spread_in_words(results)}"


def spread_in_words(results: Sequence[RunResult]) -> str:
    """Return what the cells of a table of results hold, after a comma; "" for one seed."""
    seeds = len({run.seed for run in apart(results)})
    return f", mean{' ± 95 % interval' * (seeds >= LEAST_SEEDS)}" * (seeds > 1)
