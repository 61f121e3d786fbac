"""Fits of the ring model: recovered parameters, refusals, and gangs that the fit never saw."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.errors import GpuschedError
from gpusched_env.network.calibration import RingFit, fit_ring, held_out

MEASURED = Path(__file__).parents[2] / "shared" / "traces" / "pollux" / "measured"
PLACES = [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2), (16, 2), (16, 4), (32, 4), (64, 8), (128, 16)]
GPUS, NODES = np.array(PLACES).T


@pytest.mark.parametrize("overlap", [1.5, 2.0, 3.0])
def test_parameters_are_recovered(overlap: float) -> None:
    truth = RingFit(0.2, (0.03, 0.15), (2e-4, 1e-3), overlap)
    report = held_out(GPUS, NODES, truth.iteration_s(GPUS, NODES), 0.2, 32)
    assert report.rows == 2
    assert report.p90_error < 1e-6
    np.testing.assert_allclose([*report.fit.bytes_s, *report.fit.step_s, report.fit.overlap],
                               [*truth.bytes_s, *truth.step_s, truth.overlap], rtol=1e-3)  # fmt: skip


def test_one_iteration_by_hand() -> None:
    fit = RingFit(0.3, (0.1, 0.4), (0.001, 0.002), 2.0)
    # 8 GPUs on 2 nodes: 14/8 * 0.4 + 14 * 0.002 = 0.728
    assert fit.iteration_s(np.array([8]), np.array([2]))[0] == pytest.approx((0.3**2 + 0.728**2) ** 0.5, rel=1e-12)
    assert fit.iteration_s(np.array([1]), np.array([1]))[0] == pytest.approx(0.3, rel=1e-12)


def test_what_nobody_measured_stays_unknown() -> None:
    several = NODES > 1
    truth = RingFit(0.2, (0.03, 0.15), (2e-4, 1e-3), 2.0)
    fit = fit_ring(GPUS[several], NODES[several], truth.iteration_s(GPUS, NODES)[several], 0.2)
    assert np.isnan([fit.bytes_s[0], fit.step_s[0]]).all()
    assert np.isnan(fit.iteration_s(np.array([4]), np.array([1]))).all()
    assert fit.bytes_s[1] == pytest.approx(0.15, rel=1e-3)


def test_refusals() -> None:
    fit = RingFit(0.2, (0.01, 0.05), (0.0, 0.0), 1.0)
    fit.check_line_rate(gradient_bytes=1e8, server_Bps=12e9)
    with pytest.raises(GpuschedError, match=r"1e\+09 bytes in 0\.05 s is more than the 1\.2e\+10 byte/s between nodes"):
        fit.check_line_rate(gradient_bytes=1e9, server_Bps=12e9)
    times = fit.iteration_s(GPUS, NODES)
    with pytest.raises(GpuschedError, match="at least one larger gang"):
        fit_ring(GPUS[:1], NODES[:1], times[:1], 0.2)
    with pytest.raises(GpuschedError, match="iteration times above 0"):
        fit_ring(GPUS, NODES, times * 0.0, 0.2)
    with pytest.raises(GpuschedError, match="gangs above 999 GPUs cannot be predicted"):
        held_out(GPUS, NODES, times, 0.2, 999)
    with pytest.raises(GpuschedError, match="gangs above 2 GPUs cannot be predicted"):
        held_out(GPUS, NODES, times, 0.2, 2)


@pytest.mark.skipif(not MEASURED.is_dir(), reason="the measured profiles of Pollux are not here")
@pytest.mark.parametrize("model", ["bert", "cifar10", "deepspeech2", "imagenet", "yolov3"])
def test_larger_gangs_of_measured_profiles(model: str) -> None:
    """T4 cluster, 4 GPUs a node: fitted to at most 8 GPUs, the median over batches of the median error is below 7 %."""
    by_batch: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    with (MEASURED / model / "placements.csv").open() as file:
        for row in csv.DictReader(file):
            on_nodes = [int(digit) for digit in row["placement"]]
            by_batch[row["local_bsz"]].append((sum(on_nodes), len(on_nodes), float(row["step_time"])))
    errors = []
    for rows in by_batch.values():
        gpus, nodes, step_s = np.array(rows).T
        if gpus.max() > 8:
            errors.append(held_out(gpus, nodes, step_s, float(step_s[gpus == 1][0]), 8).median_error)
    assert len(errors) >= 5
    assert np.median(errors) < 0.07
