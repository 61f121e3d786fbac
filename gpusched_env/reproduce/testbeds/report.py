"""The table of testbeds: as tables, what may be claimed, figures, files and a page."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gpusched_env.evaluation.results import csv_of, plain
from gpusched_env.reproduce.drawing import new_figure
from gpusched_env.reproduce.testbeds.playing import COLUMNS, FLOOR, Row, Table
from gpusched_env.support import tables
from gpusched_env.support.figures import COLOURS, save, tidy
from gpusched_env.support.files import write_whole
from gpusched_env.support.provenance import origin
from gpusched_env.support.tables import Cell, Heading

FORMAT: Final = "gpusched-testbeds-1"
IN_SAMPLE, LUCK = "*", "+"
NOTES: Final = (
    (IN_SAMPLE, "in sample: calibrated on the same run"),
    (LUCK, "below its floor: luck"),
    ("", "error = |predicted / measured - 1|; others are signed. Floor = what the authors' own simulator, or a second"),
    ("", "measurement, misses. Intervals are 95 %, by bootstrap over jobs, pairs, or groups and then their values;"),
    ("", "a run on a testbed is one sample: intervals do not cover the variation from run to run."),
)
_PLACE: Final = re.compile(r"\{([^|{}]+)\|([^|{}]+)\|([^{}]+)\}")  # {rows | columns | metrics}


def report_tables(found: Table) -> list[tables.Table]:
    """Return the tables in the order in which they are read; those without rows are left out."""
    of_rows = [
        [
            row.entry["id"], f"{row.entry['measured']}; {row.entry['hardware']}",
            f"on {row.entry['calibrate']}; tested on {row.entry['test']}", row.entry["blame"],
            f"{row.entry['source']} ({row.entry['licence']})",
        ]
        for row in found.rows
    ]  # fmt: skip
    missing = [
        [row.entry["id"], ", ".join(column for column in row.reasons if row.reasons[column] == why), why]
        for row in found.rows
        for why in dict.fromkeys(row.reasons.values())
    ]
    claimed = [[family, claim(one["text"], found)] for family, one in found.claims.items()]
    reported = [[row.entry["id"], row.entry["reported"]] for row in found.rows if "reported" in row.entry]
    made = [
        _errors(found),
        _texts("What the rows are", ["row", "measured", "calibrated", "to blame", "source (licence)"], of_rows),
        _texts("Rows that cannot be played", ["row", "column", "why"], missing),
        _texts("What may be claimed, and never one number for all", ["family", "claim"], claimed),
        _texts("Reported elsewhere, not played here", ["row", "reported"], reported),
    ]
    return [one for one in made if one.rows]


def _errors(found: Table) -> tables.Table:
    rows = []
    for row in found.rows:
        names = dict.fromkeys(name for scores in row.scores.values() for name in scores)
        of_all = [name for name in names if not any(s[name].group for s in row.scores.values() if name in s)]
        for name in of_all:
            rows.append(_line(row, name, name))
            inside = [one for one in names if one.startswith(f"{name} of ")]
            if " error median" in name and inside:
                last = row.scores[[column for column in row.scores if name in row.scores[column]][-1]]
                last = next((row.scores[one] for one in reversed(COLUMNS) if name in row.scores.get(one, {})), last)
                worst = max((one for one in inside if one in last), key=lambda one: last[one].loss)
                rows.append(_line(row, worst, f"  worst of {len(inside)}: {last[worst].group}"))
    headings = [Heading("row", text=True), Heading("metric", text=True), *map(Heading, (*COLUMNS, "95 %", FLOOR))]
    return tables.Table("Predicted against measured", headings, rows, sortable=False, named_by=1, notes=NOTES)


def _line(row: Row, metric: str, name: str) -> tables.Row:
    """Return a line of the table of errors; its interval is that of the last column that was played."""
    cells, last = [Cell(row.entry["id"]), Cell(name)], Cell("")
    for column in (*COLUMNS, FLOOR):
        one = row.scores.get(column, {}).get(metric)
        marks = [IN_SAMPLE] * (column in row.in_sample) + [LUCK] * row.is_luck(column, metric)
        own = Cell("") if one is None else Cell(one.text(), one.loss, interval=one.interval, notes=marks)
        if column == FLOOR:
            cells.append(last)
        elif one is not None and not math.isnan(one.interval.low):
            last = Cell(f"[{one.text(one.interval.low)}, {one.text(one.interval.high)}]".replace(" %,", ","))
        cells.append(own)
    return tables.Row(cells)


def _texts(caption: str, columns: list[str], rows: list[list[str]]) -> tables.Table:
    headings = [Heading(column, text=True) for column in columns]
    return tables.Table(caption, headings, [tables.Row(list(map(Cell, row))) for row in rows], sortable=False)


def claim(text: str, found: Table) -> str:
    """Fill in the numbers of a claim: ``{T2 | calibrated | JCT mean; makespan}`` is the largest of these errors.

    Rows, columns and metrics are separated by ";". What was not played is called that.
    """

    def largest(place: re.Match[str]) -> str:
        rows, columns, metrics = ([one.strip() for one in part.split(";")] for part in place.groups())
        of_rows = [row.scores.get(column, {}) for row in found.rows if row.entry["id"] in rows for column in columns]
        scores = [scores[metric] for scores in of_rows for metric in metrics if metric in scores]
        if len(scores) < len(rows) * len(columns) * len(metrics):
            return "(not played)"
        return max(scores, key=lambda one: one.loss).text(signed=False)

    return _PLACE.sub(largest, text)


def write_files(found: Table, folder: Path, quick: bool) -> list[str]:
    """Write results.json, results.csv with every metric, and points.csv with every value; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    constants = plain(found.constants)
    sealed = hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
    rows = [{**row.entry, "reasons": row.reasons, "in_sample": sorted(row.in_sample)} for row in found.rows]
    shown = {table.caption: table.to_rows() for table in report_tables(found)}
    head = {"format": FORMAT, **origin(), "quick": quick, "constants_sha256": sealed, "constants": constants}
    text = json.dumps(plain({**head, "rows": rows, "tables": shown}), indent=1, allow_nan=False)
    write_whole(folder / "results.json", text + "\n")
    write_whole(folder / "results.csv", csv_of(list(_metrics(found))))
    points = (
        {
            "row": row.entry["id"],
            "column": column,
            "quantity": one.quantity,
            "group": group,
            "predicted": p,
            "measured": m,
        }
        for row in found.rows
        for column, several in row.points.items()
        for one in several
        for group, p, m in zip(one.groups, one.predicted.tolist(), one.measured.tolist(), strict=True)
    )
    write_whole(folder / "points.csv", csv_of(list(points)))
    return ["results.json", "results.csv", "points.csv"]


def _metrics(found: Table) -> Iterator[dict[str, Any]]:
    for row in found.rows:
        for column, scores in row.scores.items():
            for name, one in scores.items():
                numbers = {key: f"{getattr(one.interval, key):.6g}" for key in ("mean", "low", "high")}
                yield {
                    "row": row.entry["id"], "family": row.entry["family"], "column": column, "metric": one.metric,
                    "group": one.group, "value": numbers["mean"], "low": numbers["low"], "high": numbers["high"],
                    "count": one.interval.count, "in_sample": column in row.in_sample,
                    "below_floor": row.is_luck(column, name), "source": row.entry["source"],
                    "licence": row.entry["licence"],
                }  # fmt: skip


def draw(found: Table, folder: Path) -> list[str]:
    """Draw predicted against measured values of each family, one panel for each row and quantity; return the names."""
    written = []
    for family in dict.fromkeys(row.entry["family"] for row in found.rows):
        panels: dict[str, dict[str, list[Any]]] = {}
        for row in (row for row in found.rows if row.entry["family"] == family):
            for column, one in ((c, one) for c in COLUMNS for one in row.points.get(c, ()) if len(one.measured)):
                key = f"{row.entry['id']}: {one.quantity.partition(',')[0]}"
                panels.setdefault(key, {}).setdefault(column, []).append(one)
        if not panels:
            continue
        figure = new_figure(4.0 * min(len(panels), 3), 3.8 * -(-len(panels) // 3))
        grid = figure.subplots(-(-len(panels) // 3), min(len(panels), 3), squeeze=False)
        for axes, (title, columns) in zip(grid.flat, panels.items(), strict=False):
            for column, several in columns.items():
                colour, marker = COLOURS[COLUMNS.index(column)], ".x+"[COLUMNS.index(column)]
                for one in several:
                    axes.plot(one.measured, one.predicted, marker, color=colour, markersize=4, alpha=0.6)
                axes.plot([], [], marker, color=colour, label=column)
            values = [v for several in columns.values() for one in several for v in (one.predicted, one.measured)]
            if min(float(v.min()) for v in values) > 0:
                axes.set(xscale="log", yscale="log")
            low, high = axes.get_xlim()
            axes.plot([low, high], [low, high], color="0.5", linewidth=0.8)
            axes.set(title=title, xlabel="measured", ylabel="predicted")
            axes.legend(frameon=False, fontsize=8)
            tidy(axes)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        written.append(f"{family.rpartition('.')[2]}.png")
        save(figure, folder / written[-1])
    return written


def write_page(found: Table, folder: Path, figures: list[str]) -> str:
    """Write a self-contained page with the tables, and a figure of each family; return its name."""
    from markupsafe import Markup

    from gpusched_env.reports.pages import asset, inline_policy, page

    title = "Predicted against measured: how far from reality"
    pictures = {name.removesuffix(".png"): base64.b64encode((folder / name).read_bytes()).decode() for name in figures}
    fields = {"title": title, "policy": inline_policy(()), "style": Markup(asset("style.css")), "pictures": pictures}
    write_whole(folder / "testbeds.html", page("testbeds.html", tables=report_tables(found), **fields))
    return "testbeds.html"
