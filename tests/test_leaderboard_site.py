"""The leaderboard's site: what its files hold, what entries may write into them, and that they appear whole or not."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from site_case import HOSTILE, TRACK, make_site

from gpusched_env.errors import GpuschedError
from gpusched_env.leaderboard import read_entry, score, verify, write_entry
from gpusched_env.leaderboard.folders import whole_folder
from gpusched_env.leaderboard.site import MARK, Built, build_site, entry_files

pytest.importorskip("jinja2")
pytest.importorskip("plotly")
DATA = re.compile(r'window\.gpusched\.data\["([^"]+)"\]=(.*);\n', re.DOTALL)


class Page(HTMLParser):
    """Elements with their attributes, and all text outside of scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] != "script":
            self.text += data

    def of(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Built]:
    return make_site(tmp_path_factory.mktemp("leaderboard"))


@pytest.fixture(scope="module")
def site(made: tuple[Path, Built]) -> Path:
    return made[0]


def pages(site: Path) -> list[Path]:
    return sorted(site.glob("*.html"))


def test_every_link_leads_to_a_page(site: Path) -> None:
    names = {path.name for path in pages(site)}
    assert {"index.html", f"track-{TRACK}.html"} <= names
    reached = set()
    for path in pages(site):
        for link in Page(path).of("a"):
            href = str(link["href"])
            if not href.startswith("https://example.org/"):
                reached.add(href.partition("#")[0])
        for script in Page(path).of("script"):
            assert "src" not in script or (site / str(script["src"])).is_file()
    assert reached == names


def test_texts_of_entries_are_never_markup(site: Path) -> None:
    expected = {"script", "button", "html", "head", "meta", "title", "link", "body", "header", "a", "main", "h1", "p"}
    expected |= {"h2", "h3", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "footer", "code", "span"}
    expected |= {"section", "label", "select", "option", "input", "output", "ul", "li", "dl", "dt", "dd"}
    hostile = 0
    for path in pages(site):
        page = Page(path)
        hostile += HOSTILE in page.text
        assert {tag for tag, _ in page.elements} <= expected
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        for script in page.of("script"):
            assert str(script.get("src", "")).startswith("assets/") or script.get("type") == "application/json"
        [policy] = [str(one["content"]) for one in page.of("meta") if "http-equiv" in one]
        assert "script-src 'self' file:;" in policy
    assert hostile >= 3  # the first page, the track's and the entry's


def test_data_are_json_under_their_own_name(site: Path) -> None:
    files = sorted((site / "data").rglob("*.js"))
    assert len(files) == 1 + 10 * (3 + 1)  # distributions; ten seeds of three entries, and their lines
    for path in files:
        match = DATA.fullmatch(path.read_text(encoding="utf-8"))
        assert match is not None
        assert match[1] == str(path.relative_to(site / "data").with_suffix(""))
        assert "<" not in match[2]
        json.loads(match[2])
        assert path.stat().st_size < 600_000


def test_the_first_page_is_small(site: Path) -> None:
    """Everything that it loads, within 1 MB; the library that draws is loaded by pages that draw only."""
    page = Page(site / "index.html")
    loaded = [site / "index.html"]
    loaded += [site / str(script["src"]) for script in page.of("script")]
    loaded += [site / str(link["href"]) for link in page.of("link")]
    assert len(loaded) == 3
    assert sum(path.stat().st_size for path in loaded) < 100_000


def test_tables_hold_what_a_replay_gives(made: tuple[Path, Built], site: Path) -> None:
    entries = made[1].entries[TRACK]
    assert entries[0].label == HOSTILE
    numbers = [
        float(str(cell["data-value"])) for cell in Page(site / f"track-{TRACK}.html").of("td") if "data-value" in cell
    ]
    fifo = next(shown for shown in entries if shown.baseline)
    fifo_runs = verify(fifo.entry)
    for shown in entries:
        runs = verify(shown.entry)
        for name in ("mean_jct_s", "p99_jct_s", "utilisation", "makespan_s"):
            assert np.isclose(numbers, np.mean([run.metrics[name] for run in runs]), rtol=1e-12).any()
        assert np.isclose(numbers, score(runs, fifo_runs).mean, rtol=1e-12, atol=1e-12).any()
        assert shown.score == score(shown.entry.runs, fifo.entry.runs)
    assert fifo.score.mean == 0.0


def test_equal_titles_are_told_apart(made: tuple[Path, Built]) -> None:
    labels = [shown.label for shown in made[1].entries[TRACK]]
    assert len(set(labels)) == 3
    assert sum(label.startswith("fifo (") for label in labels) == 2


def test_what_is_refused_is_named_and_not_shown(made: tuple[Path, Built], site: Path) -> None:
    refused = {path.name: reason for path, reason in made[1].refused}
    assert set(refused) == {"<b>damaged.json.zst", "twice.json.zst"}
    assert "the same entry as hostile.json.zst" in refused["twice.json.zst"]
    text = Page(site / "index.html").text
    assert "<b>damaged.json.zst" in text
    assert "the same entry as hostile.json.zst" in text


def test_an_entry_that_is_not_true_leaves_nothing_behind(site: Path, tmp_path: Path) -> None:
    """A metric of the last seed is changed and the seal made anew: only the replay can tell."""
    import msgspec

    entry = read_entry(site.parent / "entries" / "same-title.json.zst")
    last = entry.runs[-1]
    better = msgspec.structs.replace(last, metrics=dict(last.metrics) | {"mean_jct_s": 1.0})
    write_entry(msgspec.structs.replace(entry, runs=[*entry.runs[:-1], better]), tmp_path / "better.json.zst")
    built = build_site(entry_files(tmp_path), tmp_path / "site")
    [(path, reason)] = built.refused
    assert path.name == "better.json.zst"
    assert "metrics.mean_jct_s: the entry says 1.0" in reason
    assert not any(built.entries.values())
    assert not list((tmp_path / "site" / "data").rglob("[0-9a-f]*[0-9a-f].js"))
    assert "mean_jct_s: the entry says 1.0" in Page(tmp_path / "site" / "index.html").text
    same = build_site(entry_files(tmp_path), tmp_path / "site")  # a site may be replaced by a site
    assert same.refused == built.refused


def test_other_folders_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(GpuschedError, match="holds other things"):
        build_site([], tmp_path / "mine")
    (tmp_path / "file").touch()
    with pytest.raises(GpuschedError, match="file or a link"):
        build_site([], tmp_path / "file")
    with pytest.raises(GpuschedError, match="not a folder"):
        entry_files(tmp_path / "absent")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "site", MARK) as folder:
        (folder / "old").touch()

    def fail() -> None:
        with whole_folder(tmp_path / "site", MARK) as folder:
            (folder / "half").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == [MARK, "old"]
    with whole_folder(tmp_path / "site", MARK) as folder:
        (folder / "new").touch()
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == [MARK, "new"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_only_the_tracks_that_are_asked_for(site: Path, tmp_path: Path) -> None:
    """Entries of other tracks are passed over; nothing is replayed for them."""
    given = entry_files(site.parent / "baselines")
    built = build_site(given, tmp_path / "site", tracks=["general-v1", "philly-log-v0"])
    assert built == Built({"general-v1": [], "philly-log-v0": []}, [])
    names = {path.name for path in pages(tmp_path / "site")}
    assert names == {"index.html", "track-general-v1.html", "track-philly-log-v0.html"}
    with pytest.raises(GpuschedError, match="unknown track"):
        build_site(given, tmp_path / "other", tracks=["general"])
