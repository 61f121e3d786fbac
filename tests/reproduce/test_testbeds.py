"""Measured testbeds: constants see no value of the test, metrics equal their definitions, and no row stops another."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.reproduce.testbeds.playing import calibrate, measured_of
from gpusched_env.reproduce.testbeds.reading import Columns, Measured, Points, UnplayableError

SHARED = Path(__file__).parents[3] / "shared" / "traces"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the shared logs are not here")

# --- a family of a user's own: a line through the origin, calibrated on even rows and tested on odd ones

X = np.arange(1.0, 21.0)
Y = 3.0 * X + np.where(X % 3 == 0, 0.5, -0.25)


def even(columns: Columns) -> np.ndarray:
    chosen: np.ndarray = columns["x"] % 2 == 0
    return chosen


def odd(columns: Columns) -> np.ndarray:
    return ~even(columns)


def line(leaking: bool = False, unplayable: str = "") -> ModuleType:
    """Make a family; one that leaks calibrates on all rows, past ``Measured.calibration``."""
    family = ModuleType("line")

    def calibrated(measured: Measured) -> dict[str, Any]:
        if unplayable == "calibrate":
            raise UnplayableError("there is no ruler")
        seen = measured.calibration("line", ["x", "y"], even)
        if leaking:
            seen = measured._table("line")
        return {"slope": float(f"{(seen['y'] / seen['x']).mean():.4g}")}

    def played(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
        if column == unplayable:
            raise UnplayableError(f"there is no {column}")
        if column == "rules":
            return []
        tested = measured.test("line", ["x", "y"], even if row == "SEEN" else odd)
        slope = {"as is": 2.0, "calibrated": constants["slope"], "floor": 2.99}[column]
        groups = [f"{x > 10}" for x in tested["x"]]
        return [Points("time [s]", groups, slope * tested["x"], tested["y"], {"makespan [s]": (slope, 3.0)})]

    family.calibrate, family.play = calibrated, played  # type: ignore[attr-defined]
    return family


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TOML file with a row of a user's family, and its measured values."""
    text = "x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(X.tolist(), Y.tolist(), strict=True))
    (tmp_path / "line.csv").write_text(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    said = "\n".join(
        f'{key} = "of {key}"' for key in ("measured", "hardware", "calibrate", "test", "blame", "source", "licence")
    )
    lines = [
        f'[files.line]\nshipped = "line.csv"\nsha256 = "{sha256}"\nvalues = ["y"]',
        *(f'[[rows]]\nid = "{row}"\nfamily = "my.line"\n{said}' for row in ("L1", "SEEN")),
        '[claims."my.line"]\ntext = "A line is predicted within {L1 | calibrated | time error median; makespan}."',
    ]
    monkeypatch.setitem(sys.modules, "my.line", line())
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    return tmp_path / "mine.toml"


def constants_of(file: Path | None, change: Callable[[str, Columns], Columns] | None = None) -> tuple[Any, Measured]:
    rows, measured = measured_of(file)
    measured.change = change
    return calibrate(rows, measured), measured


def unread_changed(measured: Measured, seed: int) -> Callable[[str, Columns], Columns]:
    """Return a change of all measured values that no calibration read: shuffled, and times random factors."""
    rng = np.random.default_rng(seed)

    def change(file: str, table: Columns) -> Columns:
        changed = dict(table)
        for column in measured.listed[file]["values"]:
            seen = measured.seen.get((file, column), np.zeros(len(table[column]), bool))
            values = rng.permutation(table[column][~seen])
            if values.dtype.kind == "f":
                values = values * rng.uniform(0.1, 10.0, len(values))
            changed[column] = table[column].copy()
            changed[column][~seen] = values
        return changed

    return change


# --- constants see no value of the test


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_leak_is_found(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        file = listed.__wrapped__(tmp_path_factory.mktemp("line"), patch)  # type: ignore[attr-defined]
        for leaking in (False, True):
            patch.setitem(sys.modules, "my.line", line(leaking))
            constants, measured = constants_of(file)
            again, _ = constants_of(file, unread_changed(measured, seed))
            assert (again == constants) is not leaking
