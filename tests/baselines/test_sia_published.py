"""Sia against its published simulator: pieces by hand, and whole runs in which both know the same speeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from published import TRACES, here
from sia_simulator import CONFIGURATIONS, best_batch, fit, gain_of, mean_jct_s, package_s, place

SAME = {"one_restart": True, "any_batch": True, "speeds": True, "knows": True}


def test_best_batches_on_published_numbers() -> None:
    """Parameters of a step and the batches and goodputs that Pollux's goodput function gives for them."""
    p = np.array([0.02, 0.0005, 0.1, 0.01, 0.03, 0.002, 2.0])
    app: Any = SimpleNamespace(first=128, least=32)
    gain = gain_of((1.0, 8.0), 128)
    for nodes, gpus, samples, goodput in ((1, 2, 173, 2629.53), (1, 4, 132, 4238.00), (2, 8, 232, 3535.40)):
        found = best_batch(p, gain, app, 4096, 512, nodes, gpus)
        assert found[0] == pytest.approx(goodput, abs=0.01)
        assert found[1:] == (samples, 0)


def test_a_first_fit_splits_compute_evenly_and_assumes_free_communication() -> None:
    """One batch on one GPU: alpha is fixed at half of the compute time, and no network time is known."""
    p = fit({(1, 1, 64): (0.30, 0.0)})
    assert p[0] == 0.15
    assert p[0] + 64 * p[1] == pytest.approx(0.30, rel=1e-3)
    assert p[[2, 3, 4, 5]] == pytest.approx(1.1e-8, abs=2e-9)


def test_configurations_and_placement_by_hand() -> None:
    """6 x 4 T4 have 8 configurations, 2 x 8 A100 have 5, 3 x 8 RTX have 6; gangs go to nodes in turn."""
    assert [sum(kind == of for of, _ in CONFIGURATIONS) for kind in ("aws", "dgx-ext", "rtx")] == [8, 5, 6]
    assert place(3, 4, [(0, 1), (1, 8), (2, 2)]) == {1: (4, 4), 2: (2,), 0: (1,)}
    assert place(2, 4, [(0, 3), (1, 2), (2, 2)]) == {0: (3,), 1: (2,), 2: (1, 1)}


@here
@pytest.mark.parametrize("workload", ["saturn/workload-4", "newtrace/workload-1"])
def test_with_the_same_knowledge_the_published_policy_and_the_package_agree(workload: str) -> None:
    """One restart cost, and speeds that both know: what is left are ties and the seconds within ticks."""
    path = TRACES / "sia" / f"{workload}.csv"
    assert mean_jct_s(path, **SAME) == pytest.approx(package_s(path), rel=0.03)


@here
def test_calibration_slows_both_alike() -> None:
    path = TRACES / "sia" / "newtrace" / "workload-1.csv"
    ours = package_s(path, "published", 10) / package_s(path, count=10)
    published = mean_jct_s(path, 10, calibrated=True, **SAME) / mean_jct_s(path, 10, **SAME)
    assert ours == pytest.approx(published, rel=0.03)
    assert ours > 1.15
