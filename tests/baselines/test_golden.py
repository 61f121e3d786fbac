"""Golden files: the exact event log of every baseline on tiny-v1. See golden/regenerate.py."""

from __future__ import annotations

import pytest

from gpusched_env.baselines import list_baselines
from tests.golden.regenerate import HERE, golden_file, playthrough


@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_the_playthrough_is_the_golden_one(name: str) -> None:
    recorded = golden_file(name).read_text(encoding="utf-8").splitlines()
    assert playthrough(name).splitlines() == recorded, "results changed: read tests/golden/regenerate.py"


def test_every_golden_file_belongs_to_a_baseline() -> None:
    assert set(HERE.glob("*.txt")) == {golden_file(name) for name in list_baselines({"links"})}
