"""Pairs of the testbeds table: constants see only their halves, goals, and the defaults that follow from the pairs."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from published import TRACES

from gpusched_env.sharing import MEASURED, Sharing
from gpusched_env.sharing.interference import MEASURED_XI
from gpusched_env.sharing.pair_numbers import FLEET, NUMBERS
from studies.reproduce.testbeds import colocation
from studies.reproduce.testbeds.reading import SHIPPED, Columns, Measured, Points

TOML = tomllib.loads((SHIPPED.parent / "testbeds.toml").read_text(encoding="utf-8"))
LISTED, CLAIM = TOML["files"], TOML["claims"]["colocation"]["text"]
ROWS = {row["id"]: row for row in TOML["rows"]}
OF_NODES = {"deepshare": LISTED["deepshare"]}
Frozen = tuple[Measured, dict[str, Any]]


def freeze(files: dict[str, Any], change: Callable[[str, Columns], Columns] | None = None) -> Frozen:
    measured = Measured(files, change, rows=ROWS)
    constants = colocation.calibrate(measured)
    measured.frozen = True
    return measured, constants


@pytest.fixture(scope="module")
def frozen() -> Frozen:
    if not TRACES.is_dir():
        pytest.skip("published traces are not here: ../shared/traces is absent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSCHED_DATA", str(TRACES))
        return freeze(LISTED)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(TRACES))


def errors(points: Points) -> tuple[float, float]:
    error = np.abs(points.predicted / points.measured - 1)
    return float(np.nanmedian(error)), float(np.nanquantile(error, 0.9))


def test_two_numbers_per_model_predict_unseen_pairs_on_shared_nodes() -> None:
    measured, constants = freeze(OF_NODES)
    (points,) = colocation.play("C1-20", "calibrated", constants, measured)
    assert len(points.predicted) == 20 * 225
    median, tail = errors(points)
    assert median <= 0.06
    assert tail <= 0.19  # the goal of 18 % is missed; other pairs of the same two models do no better:
    (one,) = colocation.play("C1", "calibrated", constants, measured)
    (floor,) = colocation.play("C1", "floor", constants, measured)
    (plain,) = colocation.play("C1", "as is", constants, measured)
    assert errors(one)[1] < errors(floor)[1]
    assert 3 * errors(one)[0] < errors(plain)[0]
    assert all(0 < rate <= 1 for rate in one.predicted)
    assert colocation.play("C1", "rules", constants, measured) == []
    assert len(set(one.groups)) == 21  # unordered pairs of six models


def test_frozen_numbers_are_those_that_a_table_of_a_scenario_has() -> None:
    """Else a user who copies them would play something else than the row."""
    for halves in freeze(OF_NODES)[1].values():
        assert all(set(half) == set(NUMBERS[1:]) for half in halves)


def test_numbers_of_a_half_do_not_depend_on_the_other_half() -> None:
    constants = freeze(OF_NODES)[1]
    for seed in (0, 7):
        second = colocation._chosen("", seed, second=True)

        def spoil(file: str, table: Columns, second: Callable[[Columns], np.ndarray] = second) -> Columns:
            return table | {"rate": np.where(second(table), table["rate"][::-1] / 2, table["rate"])}

        spoilt = freeze(OF_NODES, spoil)[1]
        assert spoilt["C1-20"][seed] == constants["C1-20"][seed]
        assert spoilt["C1-20"][seed + 1] != constants["C1-20"][seed + 1]
    assert constants["C1"] == constants["C1-20"][:1]


def test_pairs_of_models_that_were_never_together_are_a_row_of_their_own() -> None:
    """Halves of C1 have each pair of models, in other sizes of the gangs; those of C1-models do not."""
    measured, constants = freeze(OF_NODES)
    shared = {}
    for by in ("pair", "models"):
        halves = [
            measured.test("deepshare", ["models"], colocation._chosen("", 0, second=second, by=by))["models"].tolist()
            for second in (False, True)
        ]
        assert sum(map(len, halves)) == 450
        shared[by] = set(halves[0]) & set(halves[1])
    assert len(shared["pair"]) == 21
    assert shared["models"] == set()
    of_pairs, of_models = (
        errors(colocation.play(row, "calibrated", constants, measured)[0]) for row in ("C1-20", "C1-models")
    )
    assert of_pairs[0] < 0.061 < of_models[0] < 0.10  # the goal of 6 % is missed for them
    assert re.findall(r"\{([^|{}]+)\|", CLAIM.partition("if they never were")[0])[-1].strip() == "C1-models"


def test_halves_keep_both_orders_of_a_pair_together(frozen: Frozen, data: None) -> None:
    choices = (colocation._chosen("K80", 0), colocation._chosen("K80", 0, second=True), colocation._chosen("K80"))
    first, second, every = (colocation._rates(frozen[0].test("gavel", colocation.FIELDS, chosen)) for chosen in choices)
    assert not {frozenset(pair[:2]) for pair in first} & {frozenset(pair[:2]) for pair in second}
    assert sorted(first + second) == sorted(every)


@pytest.mark.parametrize(("row", "median", "tail"), [("C2", 0.04, 0.13), ("C3-type", 0.05, 0.16)])
def test_two_numbers_per_job_predict_unseen_pairs_on_a_gpu(
    row: str, median: float, tail: float, frozen: Frozen, data: None
) -> None:
    measured, constants = frozen
    for found, plain in zip(
        *(colocation.play(row, c, constants, measured) for c in ("calibrated", "as is")), strict=True
    ):
        assert errors(found)[0] <= median < errors(plain)[0]
        assert errors(found)[1] <= tail


def test_numbers_of_a_gpu_type_do_not_hold_for_another(frozen: Frozen, data: None) -> None:
    measured, constants = frozen
    for other, own in zip(
        *(colocation.play(row, "calibrated", constants, measured) for row in ("C3", "C3-type")), strict=True
    ):
        assert errors(other)[0] > 5 * errors(own)[0]


def test_the_defaults_of_sharing_follow_from_measured_pairs(frozen: Frozen) -> None:
    """Tables weigh alike: Lucid's half that calibrates, and Gavel's V100; medians and quartiles of log c and log d."""
    medians, sigmas = [], []
    for row in ("C2", "C3"):
        logs = [
            [math.log(value) for name, value in frozen[1][row][0][side].items() if name != FLEET]
            for side in ("sensitivity", "aggressiveness")
        ]
        low, middle, high = np.quantile(logs, (0.25, 0.5, 0.75), axis=1)
        medians.append(middle.sum())
        sigmas.append(math.hypot(*(high - low)) / 1.349)
    assert MEASURED.median == pytest.approx(math.exp(np.mean(medians)), abs=0.005)
    assert MEASURED.sigma == pytest.approx(np.mean(sigmas), abs=0.05)
    middle_xi = math.exp(np.mean(np.log1p(np.exp(medians))))
    assert MEASURED_XI == Sharing().interference == pytest.approx(middle_xi, abs=0.025)
