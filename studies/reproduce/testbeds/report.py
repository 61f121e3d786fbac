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

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.results import csv_of, plain
from gpusched_env.reports.pages import asset, inline_policy, page
from gpusched_env.support.figures import COLOURS, save, tidy
from gpusched_env.support.files import write_whole
from gpusched_env.support.provenance import origin
from gpusched_env.support.tables import Cell, Heading, Table
from gpusched_env.support.tables import Row as Line
from studies.reproduce.drawing import new_figure
from studies.reproduce.testbeds.playing import COLUMNS, FLOOR, Row
from studies.reproduce.testbeds.reading import Points
from studies.reproduce.testbeds.scoring import Score

ERRORS: Final = "Predicted against measured"  # caption of the table, which plots follow in the page
WIDE: Final = 20.0  # ratio of values above which axes are logarithmic
FORMAT: Final = "gpusched-testbeds-1"
IN_SAMPLE, LUCK, BESIDE, WORSE = "*", "+", "~", "!"
ABSENT: Final = "not known here"
LONG: Final = 30  # [characters] from which a sentence that an earlier row has is not printed again
SHOWN: Final = (COLUMNS[-1], FLOOR, *COLUMNS[:-1])  # a narrow terminal shows the first ones
IN_FILES: Final = ("bias", "error worst")  # metrics that are not printed
WORST: Final = ("time error median", "wait mean")  # of which the worst group is shown
ABOUT: Final = (
    "as is = defaults of the package; rules = published rules of the testbed; calibrated = with frozen constants, too; "
    "floor = what the authors' simulator or a second measurement misses. error = |predicted / measured - 1|; "
    "metrics with a sign are signed errors. 95 % = bootstrap of calibrated, over jobs, pairs, or groups and then their "
    "values. A run of a testbed is one sample: no interval covers another run."
)
NOTES: Final = (
    (IN_SAMPLE, "in sample: calibrated on the same run"), (LUCK, "below its floor: luck"),
    (BESIDE, "no bound, for it does not measure the same thing again; what it is, the row says"),
    (WORSE, "calibrated, and worse than as is"), ("", ABOUT),
)  # fmt: skip
_PLACE: Final = re.compile(r"\{([^|{}]+)\|([^|{}]+)\|([^{}]+)\}")  # {rows | columns | metrics}


def report_tables(rows: Sequence[Row], listed: Mapping[str, Any], constants: Mapping[str, Any]) -> list[Table]:
    """Return the tables of rows and of what is listed with them; empty ones are left out."""
    headings = [Heading("row", text=True), Heading("metric", text=True), *map(Heading, (*SHOWN, "95 %"))]
    lines = [line for row in rows for line in _lines(row)]
    missing: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for why in dict.fromkeys(row.reasons.values()):
            columns = ", ".join(column for column in row.reasons if row.reasons[column] == why)
            missing.setdefault((columns, why), []).append(row.entry["id"])
    texts: dict[str, list[dict[str, str]]] = {
        "What may be claimed, and never one number for all": [
            {"family": family, "claim": claim(of["text"], rows)} for family, of in listed.get("claims", {}).items()
        ],
        "Goals": [goal(of, rows) for of in listed.get("goals", ())],
        ERRORS: [],
        "Constants, and what has them": [
            {"family": of["family"], "constant": of["name"], "value": _constant(constants, of), "where": of["where"]}
            for of in listed.get("constants", ()) if of["family"] in constants
        ],
        "Rows that cannot be played": [
            {"columns": columns, "rows": ", ".join(ids), "why": why} for (columns, why), ids in missing.items()
        ],
        "Reported elsewhere, not played here": [
            {"row": row.entry["id"], "reported": row.entry["reported"]} for row in rows if "reported" in row.entry
        ],
        "What the rows are": _about(rows),
    }  # fmt: skip
    made = []
    for caption, of in texts.items():
        if caption == ERRORS:
            made.append(Table(ERRORS, headings, lines, sortable=False, named_by=1, notes=NOTES))
        names = [Heading(name, text=True) for name in (of or [{}])[0]]
        made.append(Table(caption, names, [Line(list(map(Cell, one.values()))) for one in of], sortable=False))
    return [one for one in made if one.rows]


def _about(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Say what each row is; a long sentence is printed once, and then names the row that had it."""
    told: list[dict[str, str]] = []
    first: dict[tuple[str, str], str] = {}
    for of in (row.entry for row in rows):
        at = {name: first.setdefault((name, text), of["id"]) for name, text in of.items() if isinstance(text, str)}
        short = {
            name: of[name] if where == of["id"] or len(of[name]) < LONG else f"as {where}" for name, where in at.items()
        }
        text = (
            "Measured: {measured}; {hardware}. Calibrated on: {calibrate}. Tested on: {test}. To blame: {blame}. "
            "Source: {source} ({licence})."
        ).format(**short)
        told.append({"row": of["id"], "what": text})
    return told


def _constant(constants: Mapping[str, Any], of: Mapping[str, str]) -> str:
    """Return a frozen constant, whose name is a path to it, separated by "/"; a row without its file has none."""
    found = constants[of["family"]]
    try:
        for part in of["name"].split("/"):
            found = found[int(part) if isinstance(found, list) else part]
    except (KeyError, IndexError, ValueError):
        return ABSENT
    pairs = found.items() if isinstance(found, Mapping) else (("", one) for one in np.atleast_1d(found).tolist())
    return ", ".join(f"{name} {value:g}".strip() for name, value in pairs)


def _lines(row: Row) -> Iterator[Line]:
    """Yield the lines of a row in the table of errors: metrics of all values, and the worst groups of each median.

    Groups that have a part after a comma, such as a band of sizes, have a worst one for each part.
    """
    names = {name: score for column in row.scores.values() for name, score in column.items()}
    for name in (name for name, score in names.items() if not score.group and score.kind not in IN_FILES):
        yield _line(row, name, name)
        column = next(column for column in (*COLUMNS[::-1], FLOOR) if name in row.scores.get(column, {}))
        parts: dict[str, list[Score]] = {}
        for one in row.scores[column].values():
            if name.startswith(WORST) and one.metric == name and one.group:
                parts.setdefault(one.group.partition(", ")[2], []).append(one)
        for groups in parts.values():
            worst = max(groups, key=lambda one: one.loss)
            yield _line(row, f"{name} of {worst.group}", f"  worst of {len(groups)}: {worst.group}")


def _line(row: Row, metric: str, name: str) -> Line:
    cells, interval = {}, Cell("")
    for column in (*COLUMNS, FLOOR):
        one = row.scores.get(column, {}).get(metric)
        marks = [IN_SAMPLE] * (column in row.in_sample) + [LUCK] * row.is_luck(column, metric)
        marks += [BESIDE] * (column == FLOOR and row.beside) + [WORSE] * row.is_worse(column, metric)
        cells[column] = Cell("") if one is None else Cell(one.text(), one.loss, interval=one.value, notes=marks)
        if one is not None and column == COLUMNS[-1]:
            interval = Cell(_interval(one))
    return Line([Cell(row.entry["id"]), Cell(name), *(cells[column] for column in SHOWN), interval])


def _interval(one: Score) -> str:
    ends = f"[{one.text(one.value.low)}, {one.text(one.value.high)}]".replace(" %,", ",")
    return "" if math.isnan(one.value.low) else ends


def _largest(place: re.Match[str], rows: Sequence[Row]) -> Score | None:
    """Return the largest error of ``{rows | columns | metrics}``; None = something was not played."""
    ids, columns, metrics = ([one.strip() for one in part.split(";")] for part in place.groups())
    of_rows = {(row.entry["id"], column): scores for row in rows for column, scores in row.scores.items()}
    found = [
        [scores[name] for name in fnmatch.filter(scores, metric)]
        for scores in (of_rows.get((row, column), {}) for row in ids for column in columns)
        for metric in metrics
    ]
    return max(itertools.chain.from_iterable(found), key=lambda one: one.loss) if all(found) else None


def claim(text: str, rows: Sequence[Row]) -> str:
    """Fill in the numbers of a claim: ``{T2 | calibrated | JCT mean; makespan}`` is the largest of these errors.

    Rows, columns and metrics are separated by ";". ``time error median of *`` is that of all groups, as in names of
    files. If nothing of it was played here, the claim says only this.
    """
    found = [_largest(place, rows) for place in _PLACE.finditer(text)]
    if found and not any(found):
        return "Not played here."
    told = iter(["(not played here)" if one is None else one.text().lstrip("+-") for one in found])
    return _PLACE.sub(lambda _: next(told), text)


def goal(of: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, str]:
    """Compare the largest error of a place with the limit of a goal [%], and say what is missing if it is above."""
    place = _PLACE.fullmatch(of["place"])
    if place is None:
        raise GpuschedError(f"goal {of['goal']!r}: place {of['place']!r} is not '{{rows | columns | metrics}}'")
    found = _largest(place, rows)
    over = 0.0 if found is None else 100.0 * found.loss - of["limit"]
    missed = f"missed by {over:.1f} points: {of['missing']}" if over > 0 else "met"
    if found is not None and over <= 0 and 100.0 * max(-found.value.low, found.value.high) > of["limit"]:
        missed = "met, but not by the whole interval"
    return {
        "family": of["family"], "goal": of["goal"], "at most": f"{of['limit']:g} %",
        "result": "-" if found is None else f"{found.text()} {_interval(found)}".rstrip(),
        "verdict": "not played here" if found is None else missed,
    }  # fmt: skip


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
                marks["worse_than_as_is"] = row.is_worse(column, name)
                metrics.append({**of, **numbers, **marks, **about})
    told = [{**row.entry, "reasons": row.reasons, "in_sample": sorted(row.in_sample)} for row in rows]
    sealed = hashlib.sha256(json.dumps(frozen, sort_keys=True).encode()).hexdigest()
    data = {"format": FORMAT, **origin(), "constants_sha256": sealed, "constants": frozen, "rows": told, "files": files}
    write_whole(folder / "results.json", json.dumps({**data, "metrics": metrics}, indent=1) + "\n")
    write_whole(folder / "results.csv", csv_of(metrics))
    return ["results.json", "results.csv"]


def draw(rows: Sequence[Row], folder: Path) -> list[str]:
    """Draw predicted against measured values of each family, one panel for each row and quantity; return the names.

    A part of a quantity that one column alone predicts is a case, such as an end of a range, and not drawn.
    """
    families: dict[str, dict[str, dict[str, Points]]] = {}
    for row in rows:
        panels = families.setdefault(row.entry["family"].rpartition(".")[2], {})
        for column in COLUMNS:
            for one in row.points.get(column, ()):
                if not np.isnan(one.predicted).all():
                    panels.setdefault(f"{row.entry['id']}: {one.quantity}", {})[column] = one
    drawn = []
    for family, every in families.items():
        panels = {title: of for title, of in every.items() if len(of) > 1 or "," not in title}
        if not panels:
            continue
        across = min(len(panels), min((3, 4, 2), key=lambda wide: -len(panels) % wide))
        figure = new_figure(4.0 * across, 4.0 * -(-len(panels) // across))
        grid = figure.subplots(-(-len(panels) // across), across, squeeze=False).flat
        for (title, several), axes in zip(panels.items(), grid, strict=False):
            values = np.concatenate([both for one in several.values() for both in (one.measured, one.predicted)])
            ends = float(np.nanmin(values)), float(np.nanmax(values))
            for column, one in several.items():
                at = COLUMNS.index(column)
                axes.plot(one.measured, one.predicted, ".x+"[at], color=COLOURS[at], alpha=0.6, label=column)
            axes.plot(ends, ends, color="0.5", linewidth=0.8)
            if ends[0] > 0 and ends[1] > WIDE * ends[0]:
                axes.set(xscale="log", yscale="log")
            axes.set_title(title, fontsize=9)
            axes.set(xlabel="measured", ylabel="predicted")
            axes.legend(frameon=False, fontsize=8)
            tidy(axes)
        for axes in grid:
            axes.set_visible(False)
        save(figure, folder / f"{family}.png")
        drawn.append(f"{family}.png")
    return drawn


def write_page(tables: Sequence[Table], folder: Path, figures: Sequence[str]) -> str:
    """Write a self-contained page of the tables and figures; return its name."""
    from markupsafe import Markup

    pictures = {name.partition(".")[0]: base64.b64encode((folder / name).read_bytes()).decode() for name in figures}
    style = {"policy": inline_policy(()), "style": Markup(asset("style.css"))}
    title = "How far from reality: predicted against measured"
    style |= {"about": ABOUT, "errors": ERRORS}
    write_whole(folder / "testbeds.html", page("testbeds.html", title=title, tables=tables, pictures=pictures, **style))
    return "testbeds.html"
