"""The card of Hadar and HadarE: complete labels, findings on a few small mixes, tables and figures of the runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpusched_env.reproduce import Card, Results, load_card, play_card
from gpusched_env.reproduce.card import Run
from gpusched_env.reproduce.hadar.figures import _forking
from gpusched_env.reproduce.hadar.settings import FORKED, NODES, PLAYERS, POLICIES, RIVALS, SETTINGS, of_mix, of_slot
from gpusched_env.reproduce.hadar.tables import busier, factor, mixes
from gpusched_env.reproduce.hadar.trends import of_cluster
from gpusched_env.reproduce.report import findings_table


def _slow(run: Run) -> bool:
    return "gavel" in run.scheduler and run.labels["part"] == "hadar"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Card, Results, Path]:
    """The quick card on two seeds of its mixes, with its fast policies."""
    card = load_card("hadar")
    seeds = sorted({run.seed for run in card.runs(quick=True)})[:2]
    runs = [run for run in card.runs(quick=True) if run.seed in seeds and not _slow(run)]
    card.runs = lambda quick: runs  # type: ignore[method-assign]
    folder = tmp_path_factory.mktemp("hadar")
    return card, play_card(card, folder, quick=True, progress=False)[0], folder


def test_a_full_card_has_every_cell_once() -> None:
    runs = load_card("hadar").runs(quick=False)
    assert len({(tuple(run.labels.items()), run.seed) for run in runs}) == len(runs)
    assert len(runs) == len(SETTINGS) * len(POLICIES) * 5 + (2 * 7 * len(PLAYERS) + 3 * 4) * 20
    assert {run.labels["part"] for run in runs} == {"hadar", "hadare", "slots"}


def test_factors_are_paired_by_seed_and_follow_from_the_logs(played) -> None:  # type: ignore[no-untyped-def]
    _, results, _ = played
    own = results.values("makespan_s", **of_mix("aws", 1, FORKED))
    rival = results.values("makespan_s", **of_mix("aws", 1, "longest first, migrates"))
    assert factor(results, "aws", 1, "longest first, migrates") == pytest.approx(rival / own)
    assert (factor(results, "aws", 1, FORKED) == 1.0).all()
    # slots of the default length are the same runs under another label
    lab = results.values("makespan_s", **of_mix("lab", 5, FORKED))
    assert np.array_equal(results.values("makespan_s", **of_slot(5, 360)), lab)


def test_utilisation_over_hadar_is_beside_the_claim(played) -> None:  # type: ignore[no-untyped-def]
    """One job: Hadar holds one of the nodes, HadarE all of them, but loses 15 s of each slot of 360 s."""
    _, results, _ = played
    for cluster, nodes in NODES.items():
        assert busier(results, cluster, 1, "Hadar", paused=True) == pytest.approx(nodes)
        training = busier(results, cluster, 1, "Hadar")
        assert (training < nodes).all()
        assert (training > nodes * (1 - 2 * 15 / 360)).all()
    own = results.values("utilisation", **of_mix("lab", 3, FORKED))
    assert busier(results, "lab", 3, "Hadar", paused=True) == pytest.approx(
        own / results.values("utilisation", **of_mix("lab", 3, "Hadar"))
    )


def test_findings_that_hold_for_every_mix(played) -> None:  # type: ignore[no-untyped-def]
    _, results, _ = played
    found = [f for cluster in NODES for f in of_cluster(results, cluster) if "nodes train" in f.claim]
    assert len(found) == 2
    assert all(finding.holds for finding in found)
    assert findings_table(found).row_count == 2


def test_figures_show_the_medians_of_the_mixes(played) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("matplotlib")
    _, results, _ = played
    panels = _forking(results).axes
    assert [axes.get_title() for axes in panels] == [f"{cluster}, {nodes} nodes" for cluster, nodes in NODES.items()]
    for axes, cluster in zip(panels, NODES, strict=True):
        jobs = mixes(results.where(part="hadare", cluster=cluster))
        lines = {line.get_label(): line for line in axes.lines}
        for rival in RIVALS:
            medians = [np.median(factor(results, cluster, m, rival)) for m in jobs]
            assert lines[rival].get_xdata().tolist() == list(jobs)
            assert lines[rival].get_ydata() == pytest.approx(medians)
