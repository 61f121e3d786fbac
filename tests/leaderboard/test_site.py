"""The leaderboard's site: content of its files, escaping of texts of entries, and atomic replacement."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from site_case import HOSTILE, TRACK, about, make_site

from gpusched_env.errors import GpuschedError, MissingLogError
from gpusched_env.leaderboard import read_entry, score, verify, write_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.tracks import LogWindows
from tools.leaderboard.folders import whole_folder
from tools.leaderboard.site import MARK, Built, build_site, entry_files

pytest.importorskip("jinja2")
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
            if "download" in link:
                assert (site / href).is_file()
            elif not href.startswith("https://example.org/"):
                reached.add(href.partition("#")[0])
        for script in Page(path).of("script"):
            assert "src" not in script or (site / str(script["src"])).is_file()
    assert reached == names


def test_texts_of_entries_are_never_markup(site: Path) -> None:
    expected = {"script", "button", "html", "head", "meta", "title", "link", "body", "header", "a", "main", "h1", "p"}
    expected |= {"h2", "h3", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "footer", "code", "span"}
    expected |= {"section", "label", "select", "optgroup", "option", "input", "output", "ul", "li", "dl", "dt", "dd"}
    expected |= {"pre", "details", "summary"}
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


def test_data_are_separate_json_files(site: Path) -> None:
    files = sorted((site / "data").rglob("*.js"))
    assert len(files) == 1 + 10 * (3 + 1)  # distributions; ten seeds of three entries with their curves
    for path in files:
        match = DATA.fullmatch(path.read_text(encoding="utf-8"))
        assert match is not None
        assert match[1] == str(path.relative_to(site / "data").with_suffix(""))
        assert "<" not in match[2]
        json.loads(match[2])
        assert path.stat().st_size < 600_000


def test_the_first_page_is_small(site: Path) -> None:
    """All files that it loads are within 100 kB; only pages with plots load the plotting library."""
    page = Page(site / "index.html")
    loaded = [site / "index.html"]
    loaded += [site / str(script["src"]) for script in page.of("script")]
    loaded += [site / str(link["href"]) for link in page.of("link")]
    assert len(loaded) == 3
    assert sum(path.stat().st_size for path in loaded) < 100_000


def test_tables_show_the_results_of_a_replay(made: tuple[Path, Built], site: Path) -> None:
    entries = made[1].entries[TRACK]
    assert {shown.rank for shown in entries} == {1, 2, 3}
    numbers = [
        float(str(cell["data-value"])) for cell in Page(site / f"track-{TRACK}.html").of("td") if "data-value" in cell
    ]
    fifo = next(shown for shown in entries if shown.baseline)
    whole = {one.sha256: one for one in map(read_entry, (site / "entries").iterdir())}
    fifo_runs = verify(whole[fifo.entry.sha256])
    for shown in entries:
        runs = verify(whole[shown.entry.sha256])
        for name in ("mean_jct_s", "p99_jct_s", "utilisation", "makespan_s"):
            assert np.isclose(numbers, np.mean([run.metrics[name] for run in runs]), rtol=1e-12).any()
        assert np.isclose(numbers, score(runs, fifo_runs, "makespan_s").mean, rtol=1e-12, atol=1e-12).any()
        assert shown.score == score(shown.entry.runs, fifo.entry.runs, "makespan_s")
    assert fifo.score.mean == 0.0


def test_equal_titles_are_made_unique(made: tuple[Path, Built]) -> None:
    labels = [shown.label for shown in made[1].entries[TRACK]]
    assert len(set(labels)) == 3
    assert "fifo" in labels  # the baseline keeps its title
    assert sum(label.startswith("fifo (") for label in labels) == 1


def test_an_entry_can_be_downloaded_as_it_was_handed_in(site: Path) -> None:
    handed_in = {path.read_bytes() for path in (*site.parent.glob("entries/[hs]*"), *site.parent.glob("baselines/*"))}
    links = [link for path in site.glob("entry-*.html") for link in Page(path).of("a") if "download" in link]
    assert {(site / str(link["href"])).read_bytes() for link in links} == handed_in
    assert len(links) == len(handed_in) == 3


def test_claims_are_shown_apart_from_recomputed_results(site: Path, tmp_path: Path) -> None:
    """A forged entry has the decisions, title and texts of a baseline; bytes and digests differ."""
    import msgspec

    baseline = site.parent / "baselines" / "fifo.entry.xz"
    entry = read_entry(baseline)
    player = msgspec.structs.replace(entry.player, spec="own:Own", name="own")
    forged = msgspec.structs.replace(entry, about=about("fifo", "baseline"), player=player, version="9 (verified)")
    (tmp_path / "entries").mkdir()
    write_entry(forged, tmp_path / "entries" / "forged.entry.xz")
    built = build_site(entry_files(tmp_path / "entries"), tmp_path / "site", [entry], tracks=[TRACK])
    true, false = sorted(built.entries[TRACK], key=lambda shown: not shown.baseline)
    assert (true.label, false.label) == ("fifo", f"fifo ({false.key})")
    assert true.rank == false.rank == 1
    assert "baseline" in true.badges
    [badge] = false.badges
    assert badge.startswith("same schedule as")
    assert "fifo" in badge.removeprefix("same schedule as ").split(", ")
    recomputed, claimed = Page(tmp_path / "site" / false.href).text.split("Claimed, not checked")
    assert badge in recomputed
    assert f"fifo ({false.key})" in recomputed
    for words in ("baseline", "9 (verified)", "own:Own"):
        assert words not in recomputed.replace(badge, "")
        assert words in claimed
    assert Page(tmp_path / "site" / f"track-{TRACK}.html").text.count('by "baseline"') == 1


def test_blank_titles_have_a_name(site: Path) -> None:
    import msgspec

    from gpusched_env.leaderboard.standings import Given, unique_labels

    entry = read_entry(site.parent / "baselines" / "fifo.entry.xz")
    blank = msgspec.structs.replace(entry, about=about("   "), sha256="a" * 64)
    nameless = msgspec.structs.replace(blank, player=msgspec.structs.replace(entry.player, spec=" "), sha256="b" * 64)
    given = [Given(one, None, False, ()) for one in (blank, nameless)]
    assert list(unique_labels(given).values()) == ["fifo", "b" * 12]


def test_files_of_any_name_and_kind_are_listed_as_refused(tmp_path: Path) -> None:
    (tmp_path / "entries").mkdir()
    name = b"bad\xff\x1b[31m.entry.xz"
    try:
        Path(os.fsdecode(bytes(tmp_path) + b"/entries/" + name)).write_bytes(b"x")
        os.mkfifo(tmp_path / "entries" / "pipe.entry.xz")
    except (OSError, AttributeError):
        pytest.skip("this file system takes no such names")
    built = build_site(entry_files(tmp_path / "entries"), tmp_path / "site", tracks=[TRACK])
    assert len(built.refused) == 2
    text = Page(tmp_path / "site" / "index.html").text
    assert "bad\\udcff\\x1b[31m.entry.xz" in text
    assert "not a regular file" in text
    assert "2 files" in text


def test_pages_name_no_folder_of_the_machine(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (*site.glob("*.html"), *site.rglob("data/*/*.js")):
        assert str(site.parent) not in path.read_text(encoding="utf-8")

    def missing(self: LogWindows, given: Path | None) -> Path:
        raise MissingLogError(f"{tmp_path}/secret is not the log")

    monkeypatch.setattr(LogWindows, "path", missing)
    log = shipped_entries("philly-log-v0")[:2]
    built = build_site([], tmp_path / "site", log, tracks=["philly-log-v0"])
    [(reason, files)] = built.reasons().items()
    assert "needs the log muri/trace2.csv" in reason
    assert files == [f"philly-log-v0-{entry.player.spec}" for entry in log]
    assert str(tmp_path) not in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    with pytest.raises(MissingLogError, match="is not the log"):  # named by the user
        build_site([], tmp_path / "other", log, log=tmp_path / "wrong.csv", tracks=["philly-log-v0"])


def test_the_first_page_tells_how_to_enter_and_folds_what_is_not_shown(site: Path) -> None:
    page = Page(site / "index.html")
    assert "gpusched leaderboard submit --scheduler my_module:MyScheduler --track general-v1" in page.text
    assert "gpusched leaderboard verify" in page.text
    assert page.of("details") == [{}]
    assert "2 files that are not entries" in page.text


def test_scores_are_shown_with_bars(made: tuple[Path, Built], site: Path) -> None:
    bars = [
        float(str(one["style"]).removeprefix("width: ").removesuffix("%"))
        for one in Page(site / f"track-{TRACK}.html").of("span")
        if "style" in one
    ]
    scores = [*(shown.score.mean for shown in made[1].entries[TRACK]), 1.0]  # the last is the bound's
    assert bars == [pytest.approx(100 * max(score, 0), abs=0.05) for score in scores]


def test_refused_entries_are_listed_and_not_shown(made: tuple[Path, Built], site: Path) -> None:
    refused = {path.name: reason for path, reason in made[1].refused}
    assert set(refused) == {"<b>damaged.entry.xz", "twice.entry.xz"}
    assert "the same entry as hostile.entry.xz" in refused["twice.entry.xz"]
    text = Page(site / "index.html").text
    assert "<b>damaged.entry.xz" in text
    assert "the same entry as hostile.entry.xz" in text


def test_a_false_entry_adds_no_page(site: Path, tmp_path: Path) -> None:
    """A metric of the last seed is changed and the seal is valid: only the replay detects it."""
    import msgspec

    entry = read_entry(site.parent / "entries" / "same-title.entry.xz")
    last = entry.runs[-1]
    better = msgspec.structs.replace(last, metrics=dict(last.metrics) | {"mean_jct_s": 1.0})
    write_entry(msgspec.structs.replace(entry, runs=[*entry.runs[:-1], better]), tmp_path / "better.entry.xz")
    built = build_site(entry_files(tmp_path), tmp_path / "site")
    [(path, reason)] = built.refused
    assert built.differs
    assert path.name == "better.entry.xz"
    assert "metrics.mean_jct_s: the entry says 1.0" in reason
    assert not any(built.entries.values())
    assert not list((tmp_path / "site" / "data").rglob("[0-9a-f]*[0-9a-f].js"))
    assert not list((tmp_path / "site" / "entries").iterdir())
    text = Page(tmp_path / "site" / "index.html").text
    assert "mean_jct_s: the entry says 1.0" in text
    assert "python -m tools.portability" in text
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


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
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


KILLED = """
import os, sys
from pathlib import Path
from tools.leaderboard.folders import whole_folder
with whole_folder(Path(sys.argv[1]), ".mark") as folder:
    (folder / "half").touch()
    os._exit(9)
"""


def test_remains_of_a_killed_build_are_removed_by_the_next_one(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "site")], check=False)
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".site.")
    (tmp_path / ".site.mine").mkdir()  # of another user
    with whole_folder(tmp_path / "site", ".mark"):
        assert not left.exists()
        with whole_folder(tmp_path / "site", ".mark") as beside:  # one of a running build stays
            (beside / "second").touch()
        assert sum(path.name.startswith(".site.") for path in tmp_path.iterdir()) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".site.mine", "site"]


def test_only_the_given_tracks_are_built(site: Path, tmp_path: Path) -> None:
    """Entries of other tracks are ignored and not replayed."""
    given = entry_files(site.parent / "baselines")
    built = build_site(given, tmp_path / "site", tracks=["general-v1", "philly-log-v0"])
    assert built == Built({"general-v1": [], "philly-log-v0": []}, [])
    names = {path.name for path in pages(tmp_path / "site")}
    assert names == {"index.html", "track-general-v1.html", "track-philly-log-v0.html"}
    with pytest.raises(GpuschedError, match="unknown track"):
        build_site(given, tmp_path / "other", tracks=["general"])
