"""A table as data, and its renderings: terminal, LaTeX, Markdown and JSON. Pages of HTML have templates for it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from gpusched_env.metrics import Interval

BOUND: Final = "lower bound"  # row of a comparison
NARROW: Final = 20  # [characters] width at which texts after the first column wrap, if a terminal is narrow
_LATEX: Final = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<=": r"$\le$", ">=": r"$\ge$",
    "<": "$<$", ">": "$>$", "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", '"': "''",  # noqa: RUF001
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}  # fmt: skip
_LATEX_SIGNS: Final = re.compile("|".join(map(re.escape, sorted(_LATEX, key=len, reverse=True))))


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    value: float | None = None  # sort key
    href: str = ""  # address of a link
    detail: str = ""  # small print after the text
    mark: str = ""  # CSS class
    badges: Sequence[str] = ()  # texts that the program itself has established, unlike ``text``
    bar: float | None = None  # filled share of a bar below the text; None = no bar
    interval: Interval | None = None  # the number, in the unit of files
    notes: Sequence[str] = ()  # marks of notes below the table

    @property
    def whole(self) -> str:
        """The text with its small print."""
        return f"{self.text} {self.detail}".rstrip()


@dataclass(frozen=True)
class Heading:
    """A column of a table."""

    heading: str
    text: bool = False  # whether the cells are texts, not numbers
    title: str = ""  # tooltip
    better: str = "min"  # "min" or "max"; the first click on the heading sorts this value to the top
    key: str = ""  # name in JSON; "" = the heading


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    cells: Sequence[Cell]
    bound: bool = False  # whether the row has lower bounds; such a row stays last when the table is sorted


@dataclass(frozen=True)
class Table:
    """A table."""

    caption: str
    columns: Sequence[Heading]
    rows: Sequence[Row] = field(default_factory=list)
    sortable: bool = True
    sorted_by: int = -1  # index of the column by which the rows are sorted at first; -1 = none
    named_by: int = 0  # index of the column with the names of the rows
    notes: Sequence[tuple[str, str]] = ()  # mark, "" = about the whole table, and text

    def __rich__(self) -> RichTable:
        """Return the table for a terminal."""
        from rich.table import Table as RichTable
        from rich.text import Text

        texts = [Text(text) if text else None for text in (self.caption, "\n".join(self.noted()))]
        table = RichTable(title=texts[0], title_justify="left", caption=texts[1], caption_justify="left")
        for number, column in enumerate(self.columns):
            wraps = column.text and number > 0
            table.add_column(Text(column.heading), justify="left" if column.text else "right", no_wrap=not wraps)
            table.columns[-1].overflow = "fold" if wraps else "ellipsis"  # a long word goes on in the next line
        for row, following in zip(self.rows, [*self.rows[1:], None], strict=True):
            ends = following is not None and following.bound and not row.bound
            cells = [Text(cell.whole + _marks(cell, "{}", " ({})")) for cell in row.cells]
            table.add_row(*cells, style="dim" if row.bound else None, end_section=ends)
        return table

    def noted(self) -> list[str]:
        """Return the notes in lines, each after its mark."""
        return [f"{mark} {text}".strip() for mark, text in self.notes]

    def noting(self, text: str) -> Table:
        """Return the table with the lines of a text as further notes on all of it."""
        return dataclasses.replace(self, notes=[*self.notes, *(("", line) for line in text.splitlines())])

    def fitting(self, width: int) -> Table:
        """Return the table with as many of its first columns as fit a width [characters]; a note counts the others."""
        from rich.cells import cell_len

        used, shown = 1, 0
        for number, column in enumerate(self.columns):
            texts = [row.cells[number].whole + _marks(row.cells[number], "{}", " ({})") for row in self.rows]
            needed = max(map(cell_len, [column.heading, *texts]))
            used += 3 + (min(needed, NARROW) if column.text and number else needed)  # a frame and two blanks
            shown += used <= width
        shown = max(shown, 2)
        if shown >= len(self.columns):
            return self
        left = len(self.columns) - shown
        note = f"{left} more column{'s' * (left > 1)} in a wider terminal; all metrics with --output"
        rows = [dataclasses.replace(row, cells=row.cells[:shown]) for row in self.rows]
        return dataclasses.replace(self, columns=self.columns[:shown], rows=rows, notes=(*self.notes, ("", note)))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return each row as data by column: a number is its mean and interval in the unit of files, NaN is None."""
        return [
            {column.key or column.heading: _data(cell) for column, cell in zip(self.columns, row.cells, strict=True)}
            | ({"notes": list(row.cells[0].notes)} if row.cells[0].notes else {})
            for row in self.rows
        ]

    def to_markdown(self) -> str:
        """Return the table in Markdown, with the caption above and the notes below."""
        lines = ["| " + " | ".join(map(_markdown, (column.heading for column in self.columns))) + " |"]
        lines.append("|" + "|".join("---" if column.text else "---:" for column in self.columns) + "|")
        for row in self.rows:
            marks = [_marks(cell, "<sup>{}</sup>", "<sup>{}</sup>").replace("*", r"\*") for cell in row.cells]
            cells = [_markdown(cell.whole) + mark for cell, mark in zip(row.cells, marks, strict=True)]
            lines.append(f"| {' | '.join(cells)} |")
        notes = [f"{f'<sup>{_markdown(mark)}</sup> ' * bool(mark)}{_markdown(text)}" for mark, text in self.notes]
        return "\n\n".join(filter(None, [_markdown(self.caption), "\n".join(lines), *notes])) + "\n"

    def to_latex(self) -> str:
        r"""Return the table as a ``table`` of LaTeX for the package booktabs, with the notes below it."""
        shape = "".join("l" if column.text else "r" for column in self.columns)
        rule = {False: "", True: "\\midrule\n"}
        lines = [" & ".join(_latex(column.heading) for column in self.columns) + r" \\", r"\midrule"]
        for number, row in enumerate(self.rows):
            cells = [
                _latex(cell.whole) + _marks(cell, r"\textsuperscript{{{}}}", r"\textsuperscript{{{}}}")
                for cell in row.cells
            ]
            guard = "{}" if cells[0][:1] in ("[", "*") else ""  # else an argument of the line break
            lines.append(rule[row.bound and number > 0] + guard + " & ".join(cells) + r" \\")
        marked = [(rf"\textsuperscript{{{mark}}}~" if mark else "") + _latex(text) for mark, text in self.notes]
        notes = [r"\par\smallskip\footnotesize", *(f"{text}\\par" for text in marked)] if marked else []
        head = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(self.caption)}}}"]
        body = [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*head, *body, *notes, r"\end{table}", ""])


def from_rich(table: RichTable, caption: str = "", notes: Iterable[str] = ()) -> Table:
    """Return a table of Rich as data."""
    from rich.text import Text

    def plain(cell: Any) -> str:
        return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain

    columns = [Heading(plain(column.header), text=column.justify == "left") for column in table.columns]
    cells = [[Cell(plain(cell)) for cell in column.cells] for column in table.columns]
    rows = [Row(row) for row in zip(*cells, strict=True)]
    return Table(caption, columns, rows, notes=[("", note) for note in notes])


def _marks(cell: Cell, plain: str, lettered: str) -> str:
    """Return the marks of a cell: ``*`` and the like in one form, or, if there are letters, all in another one."""
    form = lettered if any(mark.isalpha() for mark in cell.notes) else plain
    return form.format(", ".join(cell.notes)) if cell.notes else ""


def _data(cell: Cell) -> Any:
    """Return a cell for JSON: the mean, ends and count of an interval, a number, or a text; None = empty."""
    interval = cell.interval
    if interval is None:
        return (None if cell.text in ("", "-") else cell.text) if cell.value is None else cell.value
    numbers = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()} | {
        "count": interval.count
    }


def _latex(text: str) -> str:
    return _LATEX_SIGNS.sub(lambda found: _LATEX[found[0]], " ".join(text.split()))


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_<|])", r"\\\1", " ".join(text.split()))
