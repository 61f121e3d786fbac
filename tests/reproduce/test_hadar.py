"""The card of Hadar and HadarE: complete labels, findings on a few small mixes, tables and figures of the runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpusched_env.support import figures as figures_module
from studies.reproduce import Card, Results, load_card, play_card
from studies.reproduce.card import Run

DATA = load_card("hadar").data["data"]
PLAYERS, NODES, FORKED = DATA["PLAYERS"], DATA["NODES"], "HadarE"
RIVALS = [player for player in PLAYERS if ", " in player]


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
    assert len(runs) == len(DATA["SETTINGS"]) * len(DATA["POLICIES"]) * 5 + (2 * 7 * len(PLAYERS) + 3 * 4) * 20
    assert {run.labels["part"] for run in runs} == {"hadar", "hadare", "slots"}


def table(card: Card, results: Results, start: str) -> dict[str, dict[str, str]]:
    """Cells of the table whose title starts with these words, by row and column."""
    [found] = [each for each in card.tables(results) if str(each.title).startswith(start)]
    first, *others = ([str(column.header), *column.cells] for column in found.columns)
    return {row: {column[0]: column[at] for column in others} for at, row in enumerate(first) if at}


def test_factors_are_paired_by_seed_and_follow_from_the_logs(played) -> None:  # type: ignore[no-untyped-def]
    card, results, _ = played
    labels = {"part": "hadare", "cluster": "aws", "jobs": 1}
    own = results.values("makespan_s", **labels, policy=FORKED)
    rival = results.values("makespan_s", **labels, policy="longest first, migrates")
    told = table(card, results, "Total duration of single copies")["aws, 3 nodes: longest first, migrates"]
    assert told["1"] == f"{np.median(rival / own):.2f}"
    # slots of the default length are the same runs under another label
    lab = results.values("makespan_s", part="hadare", cluster="lab", jobs=5, policy=FORKED)
    assert np.array_equal(results.values("makespan_s", part="slots", jobs=5, slot_s=360), lab)


def test_utilisation_over_hadar_is_beside_the_claim(played) -> None:  # type: ignore[no-untyped-def]
    """One job: Hadar holds one of the nodes, HadarE all of them, but loses 15 s of each slot of 360 s."""
    card, results, _ = played
    told = table(card, results, "Utilisation, HadarE's over another's (abstract: 1.45)")
    for cluster, nodes in NODES.items():
        assert float(told[f"{cluster}: Hadar, nodes held"]["1"]) == nodes
        assert nodes * (1 - 2 * 15 / 360) < float(told[f"{cluster}: Hadar, training"]["1"]) < nodes
    labels = {"part": "hadare", "cluster": "lab"}
    each = [
        results.values("utilisation", **labels, jobs=jobs, policy=FORKED)
        / results.values("utilisation", **labels, jobs=jobs, policy="Hadar")
        for jobs in (1, 3, 5)
    ]
    own = told["lab: Hadar, nodes held"]
    assert [own["3"], own["all"]] == [f"{np.median(each[1]):.2f}", f"{np.median(np.concatenate(each)):.2f}"]


def test_findings_that_hold_for_every_mix(played) -> None:  # type: ignore[no-untyped-def]
    card, results, _ = played
    found = [finding for finding in card.findings(results) if "nodes train" in finding.claim]
    assert [finding.setting for finding in found] == ["HadarE, aws", "HadarE, lab"]
    assert all(finding.holds for finding in found)


def test_figures_show_the_medians_of_the_mixes(played, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("matplotlib")
    card, results, folder = played
    drawn = {}
    monkeypatch.setattr(figures_module, "save", lambda figure, path: drawn.update({path.name: figure}))
    card.draw(results, folder)
    panels = drawn["forking.png"].axes
    assert [axes.get_title() for axes in panels] == [f"{cluster}, {nodes} nodes" for cluster, nodes in NODES.items()]
    for axes, cluster in zip(panels, NODES, strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        labels = {"part": "hadare", "cluster": cluster}
        for rival in RIVALS:
            medians = [
                np.median(
                    results.values("makespan_s", **labels, jobs=m, policy=rival)
                    / results.values("makespan_s", **labels, jobs=m, policy=FORKED)
                )
                for m in (1, 3, 5)
            ]
            assert lines[rival].get_xdata().tolist() == [1, 3, 5]
            assert lines[rival].get_ydata() == pytest.approx(medians)
