"""The scheduler that an entry names is played if it is one of the package; otherwise it is a claim, and is shown so."""

from __future__ import annotations

import functools
import sys

import msgspec
import pytest

from gpusched_env.errors import EntryError, MismatchError
from gpusched_env.leaderboard import About, Entry, Track, make_entry, read_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.claims import check_claims, shipped_player
from gpusched_env.leaderboard.verifying import play_again, played_again

TINY = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", reports=3)
ABOUT = About(title="T", authors="A", how="", hardware="", training_seeds=[], link="", licence="MIT")


@functools.cache
def entry_of(spec: str) -> Entry:
    return make_entry(TINY, spec, ABOUT, progress=False)


def claiming(entry: Entry, **changes: object) -> Entry:
    return msgspec.structs.replace(entry, player=msgspec.structs.replace(entry.player, **changes)).sealed()


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
    for path in shipped_entries():
        player = read_entry(path).player
        own = shipped_player(player.spec)
        assert own is not None, path.name
        assert own.clairvoyant is player.clairvoyant, path.name
