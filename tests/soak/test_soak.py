"""The soak plays each of its kinds, and reports what goes wrong."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import soak.__main__ as soak
from gpusched_env.errors import EntryError
from soak import damage


@pytest.mark.parametrize("kind", [soak.batches, soak.forged])
def test_each_kind_is_played(kind) -> None:
    done: Counter[str] = Counter()
    kind(np.random.default_rng(1), lambda what: done.update([what]))
    assert done.total() >= 20


@pytest.mark.parametrize("kind", ["jobs", "entry", "log", "dataset", "card", "snapshot"])
def test_damaged_files_are_refused_or_give_what_they_should(kind: str) -> None:
    done: Counter[str] = Counter()
    rng = np.random.default_rng(2)
    for _ in range(6):
        damage.play_damage(rng, kind, lambda what: done.update([what]))
    assert done.total() == 6


def test_another_result_of_a_damaged_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(call, arguments, seconds):
        raise EntryError("its replay takes more than 60 s of CPU time, or its process died")

    damage._made("jobs")
    monkeypatch.setattr(damage, "_kept", lambda content: "a file")
    monkeypatch.setattr(damage, "apart", read)
    with pytest.raises(AssertionError, match="its process died"):
        damage.play_damage(np.random.default_rng(0), "jobs", lambda what: None)
    monkeypatch.setattr(damage, "apart", lambda *_: (True, "another"))
    with pytest.raises(AssertionError, match="another result"):
        damage.play_damage(np.random.default_rng(0), "jobs", lambda what: None)


def test_a_killed_command_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "KILLED", soak.KILLED[:1])
    done: Counter[str] = Counter()
    soak.kills(np.random.default_rng(0), lambda what: done.update([what]))
    assert done["killed: compare"] >= 1


def test_a_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rng, count) -> None:
        count("broken")
        raise ZeroDivisionError("nothing")

    monkeypatch.setattr(soak, "KINDS", (broken,))
    run = soak.Soak()
    run.play(0, 0.01)
    assert run.wrong[0] == "broken: ZeroDivisionError: nothing"
    assert str(run).startswith("broken: ")
