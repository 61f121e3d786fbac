"""The calibration of LLM iterations: its targets on the measured tables, and that it finds constants again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpusched_env.traces.profile_tables.llm.times import constants, iteration
from studies.llm_calibration import Row, anchored, errors, fit, other_halves, peaks, read_rows

FOLDER = Path(__file__).parents[3] / "shared" / "measured" / "llm"
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="measured tables are not here: ../shared/measured/llm is absent")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows(FOLDER)


@here
def test_targets(rows: list[Row]) -> None:
    dense = [row for row in rows if row.fitted]
    assert (len(dense), len({row.configuration for row in dense})) == (207, 80)
    assert np.median(errors(dense)) < 0.035
    assert errors(dense).max() < 0.25
    assert np.median([np.median(half) for half in other_halves(dense, 4)]) <= 0.06
    nemo = [row for row in rows if row.stack in ("nemo", "simumax")]
    of_dense = anchored([row for row in nemo if not row.run.model.experts])
    assert len(of_dense) == 72  # as in the specification
    assert np.median(of_dense) <= 0.02
    assert of_dense.max() <= 0.10
    assert np.median(anchored([row for row in nemo if row.run.model.experts])) <= 0.05
    assert len(peaks(FOLDER)) == 43
    assert np.abs(peaks(FOLDER)).max() <= 0.10


@here
def test_fit_finds_the_constants_of_exact_rows(rows: list[Row]) -> None:
    exact = [row._replace(step_s=sum(iteration(row.run, row.plan)[:2])) for row in rows if row.fitted][::5]
    found = fit(exact)
    gpus = {row.run.gpu.fitted_as for row in exact}
    assert {gpu: found.efficiency[gpu] for gpu in gpus} == pytest.approx(
        {gpu: constants().efficiency[gpu] for gpu in gpus}, rel=1e-4
    )
    assert found.quantised["Hopper"]["FP8"] == pytest.approx(0.82, rel=1e-4)
