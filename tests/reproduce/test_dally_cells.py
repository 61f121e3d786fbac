"""The contest of one tuner over test cells: its runs, and ratios and verdicts that follow from runs."""

from __future__ import annotations

import math

import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.evaluation import RunResult
from gpusched_env.problem.instance import SchedulerInfo
from studies.delay_timers.__main__ import card as load
from studies.delay_timers.cells import (
    FULL,
    GRID,
    HAND,
    LEARNED,
    MANUAL,
    NO_WAIT,
    RIVALS,
    TEST_CELLS,
    TEST_SEEDS,
)  # fmt: skip
from studies.reproduce import Results

JCT, P99 = "mean_jct_s", "p99_jct_s"


def results(times: dict[tuple[str, str], list[float]]) -> Results:
    """Runs by (cell, contender) with these mean JCTs, one a seed; others take 100 s; p99 is ten times as long."""
    labels, runs = [], []
    cells = dict.fromkeys(cell for cell, _ in times)
    seeds = len(next(iter(times.values())))
    for cell in cells:
        for contender in (*RIVALS, LEARNED):
            for seed, value in enumerate(times.get((cell, contender), [100.0] * seeds)):
                labels.append({"cell": cell, "contender": contender})
                metrics = {JCT: value, P99: 10 * value}
                runs.append(RunResult(cell, "", seed, SchedulerInfo(contender, {}, False), metrics, metrics, ""))
    return Results(labels, runs)


def test_every_contender_plays_every_test_cell_on_ten_test_seeds_and_quick_is_a_part() -> None:
    card = load()
    runs = card.runs(False)
    assert len(TEST_SEEDS) == 10
    assert {run.seed for run in runs} == set(TEST_SEEDS)
    by_label = {(run.seed, *run.labels.values()): run.scheduler for run in runs}
    assert len(by_label) == len(runs) == 10 * len(TEST_CELLS) * (len(RIVALS) + 1)
    assert len(GRID) == 25
    assert {NO_WAIT, FULL} < set(GRID)
    quick = card.runs(True)
    assert len(quick) < 200
    assert all(by_label[run.seed, *run.labels.values()] == run.scheduler for run in quick)
    for run in quick:
        scheduler = make_scheduler(run.scheduler)
        assert isinstance(scheduler, Dally)
        assert scheduler.preset == ("authors" if run.labels["cell"].startswith("authors") else "suite")


def test_static_timers_are_those_that_their_names_say() -> None:
    runs = {run.labels["contender"]: run.scheduler for run in load().runs(True)}
    assert runs[NO_WAIT].endswith("timers=256:0:0")
    assert runs[FULL].endswith("timers=1:0:0/256:inf:inf")
    (rack, network), spec = GRID["1 h+6 h"], runs["1 h+6 h"]
    assert (rack, network) == (3_600.0, 21_600.0)
    rows = [row.split(":") for row in spec.partition("timers=")[2].split("/")]
    assert [int(row[0]) for row in rows][-2:] == [8, 256]  # gangs larger than a machine have no rack timer
    assert float(rows[-1][2]) == pytest.approx(21_600.0)
    assert float(rows[-2][2]) == pytest.approx(25_200.0)
    assert set(MANUAL) == {"manual 1/2", "manual 6/12", "manual 12/24"}


def test_ratios_are_geometric_means_and_the_best_rival_is_that_of_the_cell() -> None:
    found = results({
        ("a", LEARNED): [80.0, 80.0, 80.0], ("b", LEARNED): [45.0, 45.0, 45.0],
        ("a", HAND): [160.0, 160.0, 160.0], ("b", HAND): [50.0, 50.0, 50.0], ("a", NO_WAIT): [64.0, 100.0, 64.0],
    })  # fmt: skip
    card = load()
    place = card.scope(found)
    assert place.value("over_cells(HAND, 'mean_jct_s').mean") == pytest.approx(math.sqrt(0.5 * 0.9))
    assert place.value("best['mean_jct_s']") == [NO_WAIT, HAND]
    assert place.value("in_cell(0, NO_WAIT, 'p99_jct_s').mean") == pytest.approx((0.8 * 1.25**2) ** (1 / 3))
    verdicts = {(item.claim.partition(":")[0], item.setting): item.holds for item in card.findings(found)}
    assert verdicts["mean JCT", HAND]
    assert not verdicts["mean JCT", f"a ({NO_WAIT})"]  # 1.077
    assert verdicts["mean JCT", f"b ({HAND})"]
    table = card.tables(found)[0]
    shown = {row[0]: row[1:] for row in zip(*(column.cells for column in table.columns), strict=True)}
    assert shown[HAND][0].startswith("0.671")
    assert shown[LEARNED][2:] == ("1 of 2", "1 of 2", "1.077", "1.077")
    assert shown[HAND][2:] == ("1 of 2", "1 of 2", "2.154", "2.154")
