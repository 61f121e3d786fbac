"""The soak plays each of its kinds, and reports what goes wrong."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gpusched_env import soak


@pytest.mark.parametrize("kind", [soak.batches, soak.damaged, soak.forged])
def test_each_kind_is_played(kind) -> None:
    done: Counter[str] = Counter()
    kind(np.random.default_rng(1), lambda what: done.update([what]))
    assert done.total() >= 20


def test_a_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rng, count) -> None:
        count("broken")
        raise ZeroDivisionError("nothing")

    monkeypatch.setattr(soak, "KINDS", (broken,))
    run = soak.Soak()
    run.play(0, 0.01)
    assert run.wrong[0] == "broken: ZeroDivisionError: nothing"
    assert str(run).startswith("broken: ")
