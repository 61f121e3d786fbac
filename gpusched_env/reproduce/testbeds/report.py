"""The table of testbeds: what is printed, what may be claimed, figures, files and a page."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.evaluation.results import csv_of, plain
from gpusched_env.reports.pages import asset, inline_policy, page
from gpusched_env.reproduce.drawing import new_figure
from gpusched_env.reproduce.testbeds.playing import COLUMNS, FLOOR, Row
from gpusched_env.reproduce.testbeds.reading import Points
from gpusched_env.support.figures import COLOURS, save, tidy
from gpusched_env.support.files import write_whole
from gpusched_env.support.provenance import origin
from gpusched_env.support.tables import Cell, Heading, Table
from gpusched_env.support.tables import Row as Line

WIDE: Final = 20.0  # ratio of values above which axes are logarithmic
FORMAT: Final = "gpusched-testbeds-1"
IN_SAMPLE, LUCK = "*", "+"
IN_FILES: Final = ("bias", "error worst")  # metrics that are not printed
WORST: Final = ("time error median", "wait mean")  # of which the worst group is shown
ABOUT: Final = (
    "error = |predicted / measured - 1|; metrics with a sign are signed errors. floor = what the authors' simulator or "
    "a second measurement misses. 95 % = bootstrap of the last column that was played, over jobs, pairs, or groups and "
    "then their values. A run of a testbed is one sample: no interval covers another run."
)
NOTES: Final = ((IN_SAMPLE, "in sample: calibrated on the same run"), (LUCK, "below its floor: luck"), ("", ABOUT))
_PLACE: Final = re.compile(r"\{([^|{}]+)\|([^|{}]+)\|([^{}]+)\}")  # {rows | columns | metrics}


def report_tables(rows: Sequence[Row], claims: Mapping[str, Mapping[str, str]]) -> list[Table]:
    """Return the tables in the order in which they are read; those without rows are left out."""
    headings = [Heading("row", text=True), Heading("metric", text=True), *map(Heading, (*COLUMNS, "95 %", FLOOR))]
    lines = [line for row in rows for line in _lines(row)]
    missing: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for why in dict.fromkeys(row.reasons.values()):
            columns = ", ".join(column for column in row.reasons if row.reasons[column] == why)
            missing.setdefault((columns, why), []).append(row.entry["id"])
    texts = {
        "What the rows are": [
            {
                "row": of["id"], "measured": f"{of['measured']}; {of['hardware']}",
                "calibrated on; tested on": f"{of['calibrate']}; {of['test']}", "to blame": of["blame"],
                "source (licence)": f"{of['source']} ({of['licence']})",
            }
            for of in (row.entry for row in rows)
        ],
        "Rows that cannot be played": [
            {"columns": columns, "rows": ", ".join(ids), "why": why} for (columns, why), ids in missing.items()
        ],
        "What may be claimed, and never one number for all": [
            {"family": family, "claim": claim(of["text"], rows)} for family, of in claims.items()
        ],
        "Reported elsewhere, not played here": [
            {"row": row.entry["id"], "reported": row.entry["reported"]} for row in rows if "reported" in row.entry
        ],
    }  # fmt: skip
    made = [Table("Predicted against measured", headings, lines, sortable=False, named_by=1, notes=NOTES)]
    for caption, of in texts.items():
        names = [Heading(name, text=True) for name in (of or [{}])[0]]
        made.append(Table(caption, names, [Line(list(map(Cell, one.values()))) for one in of], sortable=False))
    return [one for one in made if one.rows]


def _lines(row: Row) -> Iterator[Line]:
    """Yield the lines of a row in the table of errors: metrics of all values, and the worst group of each median."""
    names = {name: score for column in row.scores.values() for name, score in column.items()}
    for name in (name for name, score in names.items() if not score.group and score.kind not in IN_FILES):
        yield _line(row, name, name)
        column = next(column for column in (*COLUMNS[::-1], FLOOR) if name in row.scores.get(column, {}))
        groups = [one for one in row.scores[column].values() if one.metric == name and one.group]
        if name.startswith(WORST) and groups:
            worst = max(groups, key=lambda one: one.loss)
            yield _line(row, f"{name} of {worst.group}", f"  worst of {len(groups)}: {worst.group}")


def _line(row: Row, metric: str, name: str) -> Line:
    cells, interval = {}, Cell("")
    for column in (*COLUMNS, FLOOR):
        one = row.scores.get(column, {}).get(metric)
        marks = [IN_SAMPLE] * (column in row.in_sample) + [LUCK] * row.is_luck(column, metric)
        cells[column] = Cell("") if one is None else Cell(one.text(), one.loss, interval=one.value, notes=marks)
        if one is not None and column != FLOOR and not math.isnan(one.value.low):
            interval = Cell(f"[{one.text(one.value.low)}, {one.text(one.value.high)}]".replace(" %,", ","))
    floor = cells.pop(FLOOR)
    return Line([Cell(row.entry["id"]), Cell(name), *cells.values(), interval, floor])


def claim(text: str, rows: Sequence[Row]) -> str:
    """Fill in the numbers of a claim: ``{T2 | calibrated | JCT mean; makespan}`` is the largest of these errors.

    Rows, columns and metrics are separated by ";". ``time error median of *`` is that of all groups, as in names of
    files. If something was not played, the claim says so.
    """

    def largest(place: re.Match[str]) -> str:
        ids, columns, metrics = ([one.strip() for one in part.split(";")] for part in place.groups())
        of_rows = {(row.entry["id"], column): scores for row in rows for column, scores in row.scores.items()}
        found = [
            [scores[name] for name in fnmatch.filter(scores, metric)]
            for scores in (of_rows.get((row, column), {}) for row in ids for column in columns)
            for metric in metrics
        ]
        if not all(found):
            return "(not played)"
        scores = itertools.chain.from_iterable(found)
        return max(scores, key=lambda one: one.loss).text().lstrip("+-")

    return _PLACE.sub(largest, text)


def write_files(rows: Sequence[Row], constants: Mapping[str, Any], folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write results.json, with the SHA-256 of the files read, and results.csv with every metric; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    frozen, metrics = plain(constants), []
    for row in rows:
        about = {name: row.entry[name] for name in ("blame", "source", "licence")}
        for column, scores in row.scores.items():
            for name, one in scores.items():
                numbers = {key: f"{getattr(one.value, key):.6g}" for key in ("mean", "low", "high", "count")}
                of = {"row": row.entry["id"], "column": column, "metric": one.metric, "group": one.group}
                marks = {"in_sample": column in row.in_sample, "below_floor": row.is_luck(column, name)}
                metrics.append({**of, **numbers, **marks, **about})
    told = [{**row.entry, "reasons": row.reasons, "in_sample": sorted(row.in_sample)} for row in rows]
    sealed = hashlib.sha256(json.dumps(frozen, sort_keys=True).encode()).hexdigest()
    data = {"format": FORMAT, **origin(), "constants_sha256": sealed, "constants": frozen, "rows": told, "files": files}
    write_whole(folder / "results.json", json.dumps({**data, "metrics": metrics}, indent=1) + "\n")
    write_whole(folder / "results.csv", csv_of(metrics))
    return ["results.json", "results.csv"]


def draw(rows: Sequence[Row], folder: Path) -> list[str]:
    """Draw predicted against measured values of each family, one panel for each row and quantity; return the names."""
    families: dict[str, dict[str, list[tuple[int, Points]]]] = {}
    for row in rows:
        for at, points in ((at, one) for at, column in enumerate(COLUMNS) for one in row.points.get(column, ())):
            panels = families.setdefault(row.entry["family"].rpartition(".")[2], {})
            panels.setdefault(f"{row.entry['id']}: {points.quantity.partition(',')[0]}", []).append((at, points))
    for family, panels in families.items():
        lines = -(-len(panels) // 3)
        figure = new_figure(12.0, 4.0 * lines)
        grid = figure.subplots(lines, 3, squeeze=False).flat
        for (title, several), axes in zip(panels.items(), grid, strict=False):
            for at, one in several:
                axes.plot(one.measured, one.predicted, ".x+"[at], color=COLOURS[at], alpha=0.6, label=COLUMNS[at])
            low, high = axes.get_xlim()
            axes.plot([low, high], [low, high], color="0.5", linewidth=0.8)
            values = np.concatenate([both for _, one in several for both in (one.measured, one.predicted)])
            if values.min() > 0 and values.max() > WIDE * values.min():
                axes.set(xscale="log", yscale="log")
            axes.set(title=title, xlabel="measured", ylabel="predicted")
            handles, labels = axes.get_legend_handles_labels()
            named = dict(zip(labels, handles, strict=True))
            axes.legend(named.values(), named.keys(), frameon=False, fontsize=8)
            tidy(axes)
        for axes in grid:
            axes.set_visible(False)
        save(figure, folder / f"{family}.png")
    return [f"{family}.png" for family in families]


def write_page(tables: Sequence[Table], folder: Path, figures: Sequence[str]) -> str:
    """Write a self-contained page of the tables and figures; return its name."""
    from markupsafe import Markup

    pictures = {name.partition(".")[0]: base64.b64encode((folder / name).read_bytes()).decode() for name in figures}
    style = {"policy": inline_policy(()), "style": Markup(asset("style.css"))}
    title = "How far from reality: predicted against measured"
    write_whole(folder / "testbeds.html", page("testbeds.html", title=title, tables=tables, pictures=pictures, **style))
    return "testbeds.html"
