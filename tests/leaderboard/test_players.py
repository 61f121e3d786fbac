"""The scheduler that an entry names is played if it is one of the package; otherwise it is a claim, and is shown so."""

from __future__ import annotations

import functools
import lzma
import sys
from pathlib import Path

import msgspec
import pytest
from entry_case import ABOUT, TINY, changed, with_run

from gpusched_env.errors import EntryError, MismatchError
from gpusched_env.leaderboard import SUFFIX, Entry, make_entry, read_entry, verify, write_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.entry_files import parse_packed
from gpusched_env.leaderboard.packing import Packed, pack_entry
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.leaderboard.verifying import check_claims, play_again, played_again, shipped_player, verify_run
from tools.leaderboard.reading import read_given


@functools.cache
def entry_of(spec: str) -> Entry:
    return make_entry(TINY, spec, ABOUT, progress=False)


def claiming(entry: Entry, **changes: object) -> Entry:
    return changed(entry, player=msgspec.structs.replace(entry.player, **changes))


def test_a_scheduler_that_an_entry_does_not_play_is_refused() -> None:
    srtf = entry_of("srtf")
    assert played_again(srtf, TINY.problem(None), 60)
    for forged in ("learned:elastic", "fifo", "learned", "sjf:key=gpu-time", "tiresias:thresholds=60/120"):
        clairvoyant = shipped_player(forged).clairvoyant  # type: ignore[union-attr]
        lie = claiming(srtf, spec=forged, name=forged.partition(":")[0], parameters={}, clairvoyant=clairvoyant)
        with pytest.raises(MismatchError, match=f"scheduler: the entry says {forged}, which gives"):
            played_again(lie, TINY.problem(None), 60)


def test_clairvoyance_is_that_of_the_scheduler() -> None:
    problem = TINY.problem(None)
    for spec in ("srtf", "learned:philly-64", "fifo", "learned:elastic", "sjf:key=gpu-time"):
        own = shipped_player(spec)
        assert own is not None
        lie = claiming(entry_of("fifo"), spec=spec, name="mine", clairvoyant=not own.clairvoyant)
        with pytest.raises(EntryError, match="clairvoyant: the entry says"):
            check_claims(lie, problem)
        check_claims(claiming(entry_of("fifo"), spec=spec, name="mine", clairvoyant=own.clairvoyant), problem)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "my.module:Class",
        "antigravity:geohash",
        "learned:path=/tmp/model.npz",
        "learned:elastic,path=model.npz",
        "learned:nobody",
        "srtf:nonsense=1",
        "gpusched_env.baselines.fifo:Fifo",
        "dally:timers=table.npz",
    ],
)
def test_other_players_are_claims(spec: str) -> None:
    """No module or file that an entry names is imported or opened."""
    before = set(sys.modules)
    assert shipped_player(spec) is None
    assert not played_again(claiming(entry_of("fifo"), spec=spec, name="x"), TINY.problem(None), 60)
    assert not {"antigravity", "my"} & (set(sys.modules) - before)


def test_a_player_that_takes_too_long_is_a_claim() -> None:
    """The check costs at most the CPU time that the replay may take."""
    fifo = entry_of("fifo")
    assert not played_again(fifo, TINY.problem(None), 0.0)
    with pytest.raises(EntryError, match="CPU time"):
        play_again("fifo", {run.seed: run.digest for run in fifo.runs}, TINY.problem(None), 0.0)


def test_the_specs_of_shipped_entries_are_of_the_package() -> None:
    """Each names a scheduler or agent that can be checked, and the clairvoyance of it."""
    for entry in shipped_entries():
        own = shipped_player(entry.player.spec)
        assert own is not None, entry.player.spec
        assert own.clairvoyant is entry.player.clairvoyant, entry.player.spec


# --- entries without decisions


@pytest.fixture
def played(tmp_path: Path) -> Entry:
    """An entry of the form in which the package ships its own, from a file."""
    whole = make_entry(TINY, "srtf", ABOUT, progress=False, decisions=False)
    names = ("mean_jct_s", "p99_jct_s")
    runs = [msgspec.structs.replace(run, metrics={name: run.metrics[name] for name in names}) for run in whole.runs]
    path = tmp_path / f"srtf{SUFFIX}"
    write_entry(msgspec.structs.replace(whole, runs=runs), path)
    assert path.stat().st_size < 1_500
    return read_entry(path)


def test_an_entry_without_decisions_has_the_results_of_one_with_decisions(played: Entry) -> None:
    recorded = entry_of("srtf")
    assert verify(played, track=TINY) == verify(recorded, track=TINY)
    assert [run.digest for run in played.runs] == [run.digest for run in recorded.runs]
    assert played_again(played, TINY.problem(None), 60)
    mixed = with_run(played, -1, decisions=recorded.runs[-1].decisions, metrics=recorded.runs[-1].metrics)
    assert verify(mixed, track=TINY) == verify(recorded, track=TINY)


def test_false_claims_without_decisions_are_refused(played: Entry) -> None:
    """Nothing of an entry is believed because it looks as if it came with the package."""
    last = played.runs[-1]
    assert isinstance(last.metrics, dict)
    with pytest.raises(MismatchError, match=r"seed 200002: digest: the entry says 0000"):
        verify(with_run(played, -1, digest="0" * 64), track=TINY)
    with pytest.raises(MismatchError, match=r"seed 200002: metrics\.mean_jct_s: the entry says 1\.0"):
        verify(with_run(played, -1, metrics=last.metrics | {"mean_jct_s": 1.0}), track=TINY)
    with pytest.raises(EntryError, match=r"seed 200002, metrics: the names must be of .*utilisation"):
        verify(with_run(played, -1, metrics=last.metrics | {"unknown": 1.0}), track=TINY)
    with pytest.raises(MismatchError, match=r"seed 200000: digest"):
        verify(claiming(played, spec="sjf", name="sjf"), track=TINY)
    for spec in ("my.module:Class", "learned:path=/tmp/model.npz", ""):
        with pytest.raises(EntryError, match=r"no decisions, and its scheduler .* is none of this package"):
            verify(claiming(played, spec=spec), track=TINY)


def test_playing_is_limited(played: Entry) -> None:
    """The parameters of a spec are those of its authors: time and length of the log are bounded."""
    with pytest.raises(EntryError, match="CPU time"):
        verify(played, track=TINY, seconds=0.0)
    with pytest.raises(EntryError, match="longer than 5 events"):
        verify_run(played, played.runs[0], TINY.problem(None), Budget(events=5), keep_log=False)


def test_columns_of_a_run_without_decisions_are_refused(played: Entry) -> None:
    """A file must not hide data that its JSON does not show."""
    packed = msgspec.msgpack.decode(lzma.decompress(pack_entry(entry_of("srtf"))), type=Packed)
    bare = [msgspec.structs.replace(run, decisions=None) for run in packed.entry.runs]
    hiding = Packed(msgspec.structs.replace(packed.entry, runs=bare), packed.columns)
    with pytest.raises(EntryError, match="columns of a run without decisions"):
        parse_packed(lzma.compress(msgspec.msgpack.encode(hiding)))


def test_the_track_of_an_entry_opens_no_file(played: Entry, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("secret")
    path = tmp_path / f"named{SUFFIX}"
    write_entry(msgspec.structs.replace(played, track=str(tmp_path / "secret")), path)
    given, [(_, reason)] = read_given([path], [], ["general-v1"], None)
    assert not given
    assert reason.startswith(f"unknown track '{tmp_path}/secret'")
