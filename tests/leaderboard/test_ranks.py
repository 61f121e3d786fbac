"""Tracks with a reference: paired ratios, shared ranks, two rankings, and the rows to compare with."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
from entry_case import ABOUT, TINY
from scipy import stats
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.leaderboard import Track, compared, make_entry, tracks
from gpusched_env.leaderboard.baseline_entries import read_results
from gpusched_env.leaderboard.scoring import at_bound, ranked, score_on, worse
from gpusched_env.leaderboard.standings import Given, standings, track_tables
from tools.__main__ import app as tools_app
from tools.leaderboard.baselines import fitting, head_of, result_of, write_results

PAIRED = dataclasses.replace(TINY, name="paired-test", reference="las", reports=10)


@dataclasses.dataclass(frozen=True)
class Run:
    seed: int
    metrics: Mapping[str, float | None]
    bounds: Mapping[str, float | None]


@dataclasses.dataclass(frozen=True)
class Made:
    """An entry with the given mean JCT on each seed."""

    name: str
    jct_s: tuple[float, ...]

    @property
    def runs(self) -> list[Run]:
        return [Run(seed, {"mean_jct_s": value}, {"mean_jct_s": 1.0}) for seed, value in enumerate(self.jct_s)]


def around(name: str, ratio: float, spread: float = 1.0) -> Made:
    """Give an entry of this geometric mean ratio to 100; on half the seeds it is ``spread`` times as large."""
    base = 100.0 * ratio / math.sqrt(spread)
    return Made(name, tuple(base * spread ** (seed % 2) for seed in range(40)))


def ranks(*entries: Made, track: Track = PAIRED) -> list[tuple[int, str]]:
    return [(rank, name) for name, rank in ranked({one.name: one.runs for one in entries}, track).items()]


def test_the_paired_interval_is_that_of_the_t_test_of_logarithms() -> None:
    rng = np.random.default_rng(3)
    ours, base = (Made("", tuple(rng.lognormal(5.0, 0.4, 40).tolist())) for _ in range(2))
    ratio = score_on(PAIRED, ours.runs, base.runs)
    logs = np.log(ours.jct_s) - np.log(base.jct_s)
    low, high = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    assert ratio.mean == pytest.approx(math.exp(logs.mean()), rel=1e-12)
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    assert ratio.count == 40


def test_four_seeds_by_hand() -> None:
    """Logarithms of the ratios: 0, log 2, log 2, 2 log 2. Their mean is log 2, their standard error log 2 / sqrt 6."""
    ratio = compared(Made("", (1.0, 2.0, 2.0, 4.0)).runs, Made("", (1.0,) * 4).runs, "mean_jct_s")
    assert ratio.mean == pytest.approx(2.0)
    assert math.log2(ratio.high / ratio.mean) == pytest.approx(3.182446 / math.sqrt(6), rel=1e-6)  # t of 3, 97.5 %
    assert ratio.low * ratio.high == pytest.approx(4.0)


def test_a_rank_is_shared_unless_the_ratio_is_above_two_per_cent_and_certain() -> None:
    best = around("best", 1.0)
    assert ranks(around("2.1", 1.021), best) == [(1, "best"), (2, "2.1")]
    assert ranks(around("1.9", 1.019), best) == [(1, "best"), (1, "1.9")]  # certain, but small
    noisy = around("noisy", 1.2, spread=4.0)
    assert compared(noisy.runs, best.runs, "mean_jct_s").low < 1.0
    assert ranks(noisy, best) == [(1, "best"), (1, "noisy")]  # large, but not certain
    assert not worse(best.runs, best.runs, "mean_jct_s")


def test_ranks_of_entries_that_differ_from_some_but_not_from_their_neighbours() -> None:
    """Steps of 1.5 %: none differs from the next, but a rank holds only what does not differ from its first entry."""
    chain = [around(str(step), 1.015**step) for step in range(6)]
    assert ranks(*chain) == [(1, "0"), (1, "1"), (3, "2"), (3, "3"), (5, "4"), (5, "5")]
    assert ranks(*reversed(chain)) == ranks(*chain)  # the order of the files does not matter
    last = around("last", 2.0)
    assert ranks(*chain, last)[-1] == (7, "last")  # 1 + the number of entries before it


def test_equal_schedules_share_a_rank_and_ranks_never_fall() -> None:
    rng = np.random.default_rng(8)
    entries = [Made(str(n), tuple(rng.lognormal(0.02 * n, 0.05 * (1 + n % 4), 40).tolist())) for n in range(30)]
    entries.append(dataclasses.replace(entries[7], name="again"))
    runs = {one.name: one.runs for one in entries}
    of = ranked(runs, PAIRED)
    order = list(of)
    assert list(of.values()) == sorted(of.values())
    assert len(set(of.values())) > 3
    assert of["7"] == of["again"]
    firsts = [name for number, name in enumerate(order, 1) if of[name] == number]
    for before, after in itertools.pairwise(firsts):
        assert worse(runs[after], runs[before], "mean_jct_s")
    for name, rank in of.items():
        assert not worse(runs[name], runs[order[rank - 1]], "mean_jct_s")


def test_without_a_reference_only_equal_means_share_a_rank() -> None:
    entries = [around("a", 1.0), around("b", 1.0001), around("c", 1.0), around("d", 1.1)]
    assert ranks(*entries, track=TINY) == [(1, "a"), (1, "c"), (3, "b"), (4, "d")]


@pytest.mark.parametrize("track", [TINY, PAIRED])
def test_entries_without_a_mean_share_the_last_rank(track: Track) -> None:
    entries = [around("a", 1.0), Made("x", (100.0, math.nan) * 20), around("b", 1.5), Made("y", (math.nan,) * 40)]
    for given in itertools.permutations(entries):
        assert dict(map(reversed, ranks(*given, track=track))) == {"a": 1, "b": 2, "x": 3, "y": 3}


def test_more_is_better_turns_ratios_around() -> None:
    track = dataclasses.replace(PAIRED, metric="deadlines_met")

    def met(share: float) -> Made:
        class Met(Made):
            @property
            def runs(self) -> list[Run]:
                return [Run(seed, {"deadlines_met": share}, {}) for seed in range(10)]

        return Met(str(share), ())

    entries = [met(0.5), met(0.9), met(0.895), met(0.8)]
    assert ranks(*entries, track=track) == [(1, "0.9"), (1, "0.895"), (3, "0.8"), (4, "0.5")]
    assert score_on(track, at_bound(met(0.5).runs, "deadlines_met"), met(0.5).runs).mean == pytest.approx(2.0)


def test_the_fingerprint_holds_the_reference_but_not_what_is_shipped() -> None:
    plain, paired = (dataclasses.replace(PAIRED, reference=name).problem() for name in ("", "las"))
    assert plain.fingerprint() != paired.fingerprint()
    more = dataclasses.replace(PAIRED, also=("fifo:variant=skip",))
    assert more.problem().fingerprint() == paired.fingerprint()
    assert fitting(more.problem())[-1] == "fifo:variant=skip"


@pytest.fixture(scope="module")
def given() -> list[Given]:
    specs = ("fifo", "las", "random", "srtf", "sjf", "las:round_s=60")
    return [
        Given(
            make_entry(PAIRED, spec, msgspec.structs.replace(ABOUT, title=spec), progress=False, decisions=False),
            None,
            True,
            (),
        )
        for spec in specs
    ]


def test_tables_have_the_reference_random_and_the_bound(given: list[Given]) -> None:
    runs = {one.key: one.entry.runs for one in given}
    shown = standings(given, PAIRED, runs)
    for best in (None, 1):
        blind, reading = track_tables(shown, PAIRED, brief=True, best=best)
        for table in (blind, reading):
            names = [row.cells[1].text for row in table.rows]
            assert names.count("random") == 1
            assert names[-1] == "lower bound"
            assert table.columns[2].heading == "ratio to las"
            bound = table.rows[-1].cells[2].value
            assert bound is not None
            assert all(bound <= row.cells[2].value for row in table.rows)
        assert {row.cells[1].text for row in reading.rows} - {"random", "lower bound"} <= {"srtf", "sjf"}
        assert not {"srtf", "sjf"} & {row.cells[1].text for row in blind.rows}
    ratios = {row.cells[1].text: row.cells[2].value for row in track_tables(shown, PAIRED)[0].rows}
    assert ratios["las"] == 1.0
    apart = {one.entry.player.spec: (one.rank, one.of) for one in shown if one.entry.player.clairvoyant}
    assert apart.keys() == {"srtf", "sjf"}
    assert {of for _, of in apart.values()} == {2}
    assert 1 in {rank for rank, _ in apart.values()}
    together = standings(given, dataclasses.replace(PAIRED, reference=""), runs)
    assert {one.of for one in together} == {6}
    assert [table.rows[-2].cells[1].text for table in track_tables(shown[:0], PAIRED)] == []


def test_a_track_without_its_reference_has_ranks_but_no_ratios(given: list[Given]) -> None:
    few = [one for one in given if one.entry.player.spec not in ("las", "random")]
    runs = {one.key: one.entry.runs for one in given}
    whole = [one.entry.player.spec for one in standings(given, PAIRED, runs) if one.key in {g.key for g in few}]
    shown = standings(few, PAIRED, runs)
    assert [one.entry.player.spec for one in shown] == whole
    assert all(math.isnan(one.score.mean) for one in shown)
    assert track_tables(shown, PAIRED)[0].rows[-1].cells[2].text == "-"


def test_the_commands_name_the_reference(given: list[Given], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tracks._BY_NAME, PAIRED.name, PAIRED)
    monkeypatch.setattr("gpusched_env.leaderboard.baseline_entries.FOLDER", tmp_path)
    results = {one.entry.player.spec: result_of(one.entry, PAIRED) for one in given}
    write_results(tmp_path / f"{PAIRED.name}.jsonl", head_of(given[0].entry), results)
    told = CliRunner().invoke(app, ["leaderboard", "show", PAIRED.name])
    assert told.exit_code == 0, told.output
    words = told.stdout.split()
    assert told.stdout.count("ratio to las") == told.stdout.count("lower bound") == words.count("random") == 2
    assert "srtf*" in words
    assert "las:round_s=60" in words
    also = ("las:placement=consolidate,round_s=60", "fifo-skip:placement=consolidate")
    monkeypatch.setitem(tracks._BY_NAME, PAIRED.name, dataclasses.replace(PAIRED, reports=2, also=also))
    again = ["entries", "--output", str(tmp_path / "again"), "--tracks", PAIRED.name, "--schedulers", ",".join(also)]
    assert CliRunner().invoke(tools_app, again).exit_code == 0
    assert set(read_results(tmp_path / "again" / f"{PAIRED.name}.jsonl")[1]) == set(also)
    monkeypatch.setitem(tracks._BY_NAME, PAIRED.name, PAIRED)
    path = tmp_path / "a.entry.xz"
    made = CliRunner().invoke(
        app, ["leaderboard", "submit", "--scheduler", "fifo", "--track", PAIRED.name, "--output", str(path)]
    )
    assert made.exit_code == 0, made.output
    assert "ratio to las" in made.stdout
