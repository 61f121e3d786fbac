"""Panels of a workload: they show the numbers, and empty panels say why."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.workload_plots import PANELS, Picture, plot_workload
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import generate_workload
from gpusched_env.traces.generators.acceptance import Bound, Check, acceptance, measure
from gpusched_env.traces.generators.synthetic import CALIBRATIONS


def panel(name: str, picture: Picture) -> Axes:
    axes = Figure().subplots()
    PANELS[name](axes, picture)
    return axes


def said(axes: Axes) -> str:
    return " ".join(text.get_text() for text in axes.texts)


@pytest.mark.parametrize("name", sorted(CALIBRATIONS))
def test_every_panel_has_labels_and_a_legend(name: str) -> None:
    workload = generate_workload(name, 0, 10_000, start_hour=30.0)
    users = {"user": np.arange(10_000) % 12}
    checks = acceptance(measure(workload, CALIBRATIONS[name], 30.0), CALIBRATIONS[name])
    picture = Picture(dataclasses.replace(workload, attributes=users), CALIBRATIONS[name], 30.0, 1_000, checks)
    figure = plot_workload(picture, title=name)
    assert len(figure.axes) == len(PANELS)
    for panel_name, axes in zip(PANELS, figure.axes, strict=True):
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        legend = axes.get_legend()
        assert legend is not None
        words = " ".join(text.get_text() for text in legend.get_texts())
        assert "calibration" in words or "mean" in words or panel_name in ("nearness", "load", "groups")


def test_empty_panels_say_why() -> None:
    batch = Picture(generate_workload("batch", 0, 50))
    assert "all 50 jobs arrive at once" in said(panel("arrivals", batch))
    assert "all 50 jobs arrive at once" in said(panel("gaps", batch))
    assert "within a week" in said(panel("week", batch))
    work = Picture(generate_workload("ring-all-reduce", 0, 160))
    assert "--cluster" in said(panel("load", work))
    assert "iterations" in panel("run-times", work).get_xlabel()
    mixed = Workload.from_columns([0, 1], [1, 1], duration_s=[1.0, np.nan], iterations=[np.nan, 5.0])
    assert "others iterations" in said(panel("run-times", Picture(mixed)))
    assert "no users" in said(panel("groups", batch))
    assert "--calibration" in said(panel("nearness", batch))
    assert "no job" not in said(panel("demand", Picture(mixed)))


def test_groups_are_the_largest_first() -> None:
    """A virtual cluster takes precedence over a user; names are not parsed as markup."""
    attributes = {"user": np.array(["u"] * 4), "virtual_cluster": np.array(["a", "$b$", "$b$", "c" * 50])}
    axes = panel("groups", Picture(Workload.from_columns([0] * 4, [1, 1, 3, 5], [1.0] * 4, attributes=attributes)))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["$b$", "a", "c" * 35 + "\N{HORIZONTAL ELLIPSIS}"]
    jobs, gpu_time = (
        [bar.get_width() for bar in container.patches]  # type: ignore[attr-defined]
        for container in axes.containers
    )
    assert jobs == [50, 25, 25]
    assert gpu_time == [40, 10, 50]
    assert axes.get_ylabel() == "virtual cluster"


def test_the_panel_nearness_shows_distances_from_the_log() -> None:
    checks = (
        Check("near", 1.04, 1.0, Bound("relative", 0.05)),
        Check("far", 8.0, 1.0, Bound("factor", 2)),
        Check("none", 0.0, 1.0, Bound("factor", 2)),
        Check("untold", np.nan, 1.0, Bound("factor", 2)),
    )
    axes = panel("nearness", Picture(Workload.from_columns([0], [1], [1.0]), checks=checks))
    (near, place), (far, places) = (line.get_data() for line in axes.lines)
    assert near == pytest.approx([0.8])
    assert list(far) == [3, -3]
    assert [*place, *places] == [0, 1, 2]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["near", "far", "none"]


def test_arrivals_are_counted_by_the_hour() -> None:
    """Three jobs in the first hour, one in the last of 100."""
    arrival = [0, 10, 20, 100 * 3600 - 1]
    axes = panel("arrivals", Picture(Workload.from_columns(arrival, [1] * 4, [1.0] * 4)))
    heights = axes.patches[0].get_data().values  # type: ignore[attr-defined]
    assert len(heights) == 100
    assert heights[0] == 3
    assert heights[1:99].sum() == 0
    assert heights[99] == pytest.approx(1, rel=1e-3)
    mean = axes.lines[-1].get_ydata()
    assert mean == pytest.approx([4 / 100] * 2, rel=1e-3)


def test_the_week_is_averaged_over_the_weeks() -> None:
    """One job at the same hour of the week, for three weeks from Wednesday 12:30; the last hour is observed by half."""
    arrival = [3600.0 * 168 * week for week in range(4)]
    axes = panel("week", Picture(Workload.from_columns(arrival, [1] * 4, [1.0] * 4), start_hour=60.5))
    rate = axes.patches[0].get_data().values  # type: ignore[attr-defined]
    assert rate[60] == pytest.approx(4 / 3)  # four jobs; the hour is observed by half, twice whole, and by half
    assert rate.sum() == rate[60]
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["Mon", "Tue"]
    unknown = panel("week", Picture(Workload.from_columns(arrival, [1] * 4, [1.0] * 4)))
    assert "date unknown" in unknown.get_xlabel()


def test_the_load_is_the_demand_over_time() -> None:
    workload = Workload.from_columns([0, 5, 10], [1, 2, 4], [10.0, 10.0, 2.0])
    axes = panel("load", Picture(workload, cluster_gpus=8))
    assert axes.patches[0].get_data().values.tolist() == [1, 3, 6, 2]  # type: ignore[attr-defined]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]  # type: ignore[union-attr]
    assert "all work / time of arrivals: 4" in labels  # 38 GPU-seconds in 10 s
    assert "cluster: 8" in labels


def test_the_distribution_of_gaps_ends_at_one() -> None:
    workload = Workload.from_columns([0, 0, 1, 11], [1] * 4, [1.0] * 4)
    axes = panel("gaps", Picture(workload))
    x, y = axes.lines[0].get_data()
    assert list(zip(x[1:], y[1:], strict=True)) == [(1, 2 / 3), (10, 1)]
    assert "33% are 0 s" in axes.get_xlabel()


def test_an_unknown_suffix_is_refused() -> None:
    with pytest.raises(GpuschedError, match=r"\.png"):
        plot_workload(Picture(generate_workload("batch", 0, 5)), "a.gif")
