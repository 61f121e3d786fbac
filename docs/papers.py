"""The verdicts of full runs (``studies/reproduce/full_runs.csv``), and ``docs/papers.md``, made of them and of cards.

    python docs/papers.py [reproduction/CARD/results.json ...]

Each ``results.json`` of a full run replaces the stored verdicts of the same claims and settings.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import write_whole
from studies.reproduce.card import CARDS, load_card
from studies.reproduce.expressions import FIELD
from studies.reproduce.findings import NO, STORED, TIE, YES, stored

PAGE: Final = Path(__file__).with_suffix(".md")
MOST: Final = 4  # settings of a claim that are listed, if there are more
COLUMNS: Final = ("card", "claim", "setting", "verdict", "numbers")
HEAD: Final = """# Papers reproduced

The figure of the paper, ours in the full runs, and a verdict.

* A claim about an order is a *tie* where the runs cannot tell the two apart: 1 is in the 95 % interval of their ratio,
  or they differ by at most 1 %. A claim that names a size is never a tie: it fails (*NO*) if our value is outside the
  claimed range, even if 1 is in its interval.
* `--quick` plays a part, and repeats the verdicts of the full runs beside its numbers.
* Of more than four settings, those with the rarer verdict are listed. Claims without a figure are only counted.

`python docs/papers.py` writes this page.
"""
VERDICTS: Final = "\n| paper | verdict | how |\n|---|---|---|\n"


def claims_of(card: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield a pattern for each claim of a card, and the paper's figure; empty = the claim is ours.

    ``{0}`` in a figure is what the first field of the claim says.
    """
    for spec in load_card(card).data["claims"]:
        for claim in spec.get("claims", [spec]):
            fixed = FIELD.split(claim["claim"])[::2]  # the texts between the fields, which may hold anything
            yield re.compile("(.+)".join(map(re.escape, fixed)) + "$"), claim.get("paper", "")


def page() -> str:
    """Return ``docs/papers.md``: for every claim of a paper its figure, ours, and a verdict."""
    papers: dict[str, list[str]] = {}
    for card in CARDS:
        papers.setdefault(load_card(card).data["paper"]["name"], []).append(card)
    verdicts = "".join(_verdict(name, cards[0]) for name, cards in papers.items())
    return "".join([HEAD, VERDICTS, verdicts, *(_section(name, cards) for name, cards in papers.items()), _toctree()])


def _verdict(name: str, card: str) -> str:
    about = load_card(card).data["paper"]
    pages = sorted(about["pages"].items(), key=lambda one: not one[1].startswith("reproduce_"))
    title, link = pages[0]
    return f"| [{name}](#{name.lower()}) | {about['verdict']} | [{title}]({link}) |\n"


def _section(name: str, cards: Sequence[str]) -> str:
    about: Mapping[str, Any] = load_card(cards[0]).data["paper"]
    links = ", ".join(f"[{title}]({link})" for title, link in about["pages"].items())
    commands = ", ".join(f"`gpusched reproduce {card}`" for card in cards)
    text = f"\n## {name}\n{about['source']}. Pages: {links}. Command: {commands}.\n\n"
    text += "| claim | paper | ours | verdict |\n|---|---|---|---|\n"
    for card in cards:
        rows = [row for row in stored() if row["card"] == card]
        for pattern, figure in claims_of(card):
            for claim in dict.fromkeys(row["claim"] for row in rows if figure):
                if match := pattern.match(claim):
                    text += _row(claim, figure.format(*match.groups()), [row for row in rows if row["claim"] == claim])
    text += "".join(f"\n{_counted(card)}\n" for card in cards)
    return text


def _row(claim: str, figure: str, rows: Sequence[Mapping[str, str]]) -> str:
    """Return a line for a claim; of many settings, only those with the rarest verdict are listed."""
    verdicts = [row["verdict"] for row in rows]
    mixed, shown = len(set(verdicts)) > 1, list(rows)
    if len(rows) > MOST:
        rarest = min(dict.fromkeys(verdicts), key=verdicts.count)
        shown = [row for row in rows if row["verdict"] == rarest][: None if mixed else MOST]
    ours = "; ".join(
        (f"{row['setting']}: " if len(rows) > 1 else "") + row["numbers"] + (f" ({row['verdict']})" if mixed else "")
        for row in shown
    )
    same = f"yes in {verdicts.count(YES)} of {len(verdicts)}" if mixed else verdicts[0]
    return f"| {claim} | {figure} | {ours} | {same} |\n"


def _counted(card: str) -> str:
    verdicts = [row["verdict"] for row in stored() if row["card"] == card]
    if not verdicts:
        return f"`{card}`: no full run is stored; the command prints verdicts."
    yes, no, ties = (verdicts.count(verdict) for verdict in (YES, NO, TIE))
    return f"`{card}`, all findings of full runs: {yes} hold, {no} do not, {ties} tied."


def _toctree() -> str:
    pages = dict.fromkeys(page for card in CARDS for page in load_card(card).data["paper"].get("pages", {}).values())
    names = [page.removesuffix(".md") for page in pages if page not in ("deadlines.md", "elastic.md")]
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def store(paths: Sequence[Path]) -> None:
    """Replace the stored verdicts of the claims and settings whose full results are given.

    Raises
    ------
    GpuschedError : a file is of a quick run
    """
    rows = {(row["card"], row["claim"], row["setting"]): row for row in stored()}
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["quick"]:
            raise GpuschedError(f"{path}: of a quick run; run gpusched reproduce {data['card']} without --quick")
        for item in data["findings"]:
            row = {"card": data["card"], **{key: item[key].replace("\\[", "[") for key in COLUMNS[1:]}}
            rows[row["card"], row["claim"], row["setting"]] = row
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows.values(), key=lambda row: CARDS.index(row["card"])))
    write_whole(Path(str(STORED)), stream.getvalue())
    stored.cache_clear()


def main(results: Sequence[str]) -> None:
    """Store the results that are named, and write the page."""
    if results:
        store([Path(result) for result in results])
    write_whole(PAGE, page())


if __name__ == "__main__":
    main(sys.argv[1:])
