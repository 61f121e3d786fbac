"""Muri's testbed, rows T1 and T2: constants, goals, and an independent replay of the controller."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from muri_controller import Controller
from published import TRACES

from studies.reproduce.testbeds import muri
from studies.reproduce.testbeds.reading import SHIPPED, Measured, Points

LISTED = tomllib.loads((SHIPPED.parent / "testbeds.toml").read_text())["files"]


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> tuple[Measured, dict[str, Any]]:
    if not TRACES.is_dir():
        pytest.skip("published traces are not here: ../shared/traces is absent")
    monkeypatch.setenv("GPUSCHED_DATA", str(TRACES))
    measured = Measured(LISTED)
    constants = muri.calibrate(measured)
    measured.frozen = True
    return measured, constants


def errors(points: Points) -> dict[str, float]:
    """Signed relative errors, and the median of those of each job."""
    p, m = points.predicted, points.measured
    found = {f"p{q}": np.quantile(p, q / 100) / np.quantile(m, q / 100) - 1 for q in (50, 99)}
    totals = {name: one / other - 1 for name, (one, other) in points.totals.items()}
    return {"mean": p.mean() / m.mean() - 1, "per job": np.median(abs(p / m - 1)), **found, **totals}


def test_the_fit_finds_the_constants_that_made_the_run_times() -> None:
    iterations, starts = np.array([100.0, 3e3, 7e4, 5e5]), np.array([1.0, 4.0, 2.0, 40.0])
    told = {"job_id": np.arange(4.0), "num_gpu": np.ones(4), "submit_time": np.arange(4.0), "iterations": iterations}
    told |= {"iteration_time": np.full(4, 2000.0), "job_counter": starts}
    told["real_executed_time"] = 1.25 * 2.0 * iterations + 32.0 * starts
    backwards = {name: column[::-1] for name, column in told.items()}
    found = muri.fit(lambda file, columns, _: told if file == "muri_trace" else backwards, "a run")
    assert found == {"step_ratio": 1.25, "start_s": 32.0}


def test_the_constants_are_those_of_the_specification(frozen: tuple[Measured, dict[str, Any]]) -> None:
    assert frozen[1]["step_ratio"] == pytest.approx(1.0137, abs=5e-4)
    assert frozen[1]["start_s"] == pytest.approx(29.8, abs=0.05)


@pytest.mark.parametrize("row", ["T1", "T2"])
def test_the_goals_are_met(row: str, frozen: tuple[Measured, dict[str, Any]]) -> None:
    measured, constants = frozen
    (points,) = muri.play(row, "calibrated", constants, measured)
    found = errors(points)
    assert max(abs(found[name]) for name in ("mean", "p99", "makespan [s]", "starts")) <= 0.03
    assert abs(found["p50"]) <= 0.06
    assert found["per job"] <= 0.025
    (rules,) = muri.play(row, "rules", constants, measured)
    (plain,) = muri.play(row, "as is", constants, measured)
    assert found["per job"] < errors(rules)["per job"] < errors(plain)["per job"]
    assert len(muri.play(row, "floor", constants, measured)) == 1


@pytest.mark.parametrize(("row", "limits"), [("T1", None), ("T2", (3250.0, 7200.0))])
def test_a_replay_of_the_controller_gives_the_same_times(
    row: str, limits: tuple[float, ...] | None, frozen: tuple[Measured, dict[str, Any]]
) -> None:
    measured, constants = frozen
    (points,) = muri.play(row, "calibrated", constants, measured)
    jobs = muri.jobs_of(measured.test).jobs
    controller = Controller(8, 8, 360.0, constants["start_s"], limits)
    run_s = jobs["duration_s"] * constants["step_ratio"]
    ends = controller.run(jobs["arrival_s"].tolist(), jobs["gpus"].tolist(), run_s.tolist())
    np.testing.assert_array_equal(points.predicted, np.array(ends) - jobs["arrival_s"])
    assert points.totals["starts"][0] == sum(controller.starts.values())


def test_only_starts_and_stops_would_restart_too_rarely(frozen: tuple[Measured, dict[str, Any]]) -> None:
    """Why an event is enough to restart all gangs: the numbers in the docstring of Semantics."""
    measured, constants = frozen
    for (
        row,
        limits,
    ) in (("T1", None), ("T2", (3250.0, 7200.0))):
        (points,) = muri.play(row, "calibrated", constants, measured)
        predicted, counted = points.totals["starts"]
        jobs = muri.jobs_of(measured.test).jobs
        rare = Controller(8, 8, 360.0, constants["start_s"], limits, on_event=False)
        run_s = jobs["duration_s"] * constants["step_ratio"]
        rare.run(jobs["arrival_s"].tolist(), jobs["gpus"].tolist(), run_s.tolist())
        assert abs(predicted / counted - 1) < 0.01 < 0.05 < abs(sum(rare.starts.values()) / counted - 1)
