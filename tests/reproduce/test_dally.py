"""The card of Dally: conditions, policies, measures, comparisons, and a small run."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import ink, play
from typer.testing import CliRunner

from gpusched_env.baselines import make_scheduler
from gpusched_env.cli import app
from gpusched_env.evaluation import RunResult
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import SchedulerInfo
from gpusched_env.scenarios import get_scenario
from gpusched_env.support import figures as figures_module
from studies.reproduce import Results, load_card
from studies.reproduce.dally import geometric, sweep
from studies.reproduce.dally.cells import AUTHORS_CELLS, EVERYONES, SCENARIOS, SUITE, AuthorsCell, Cell, usual_load
from studies.reproduce.dally.measures import (
    PERCENTILES,
    SAMPLES_H,
    measure,
    measure_leak,
    measure_starving,
    percentile,
)
from studies.reproduce.report import WIDTH

DATA = load_card("dally").data["data"]
POLICIES, AUTHORS_POLICIES, RIVALS = DATA["POLICIES"], DATA["AUTHORS_POLICIES"], DATA["RIVALS"]
VARIANTS = [policy for policy in POLICIES if policy not in RIVALS]
SMALL = Cell("poisson", "congested").problem(jobs=120)
Value = Callable[[Cell, str, int], float]


def made_up(
    value: Callable[[Cell, str, int], float], cells: list[Cell], policies: list[str], seeds: int = 4
) -> Results:
    """Runs whose every metric is ``value(cell, policy, seed)``."""
    names = ("mean_communication_s", "mean_jct_s", "makespan_s")
    runs, told = [], []
    for cell in cells:
        for policy in policies:
            for seed in range(seeds):
                metrics = dict.fromkeys(names, value(cell, policy, seed))
                runs.append(RunResult(str(cell), "", seed, SchedulerInfo(policy, {}, False), metrics, {}, ""))
                told.append({**cell.labels, "policy": policy, "order": "" if policy in RIVALS else "asc"})
    return Results(told, runs)


def test_cells_are_the_scenarios_of_their_names() -> None:
    cell = Cell("poisson", "congested", 8, load=1.1, gpus=512)
    named = get_scenario("dally-poisson-v1:gpus=512,oversubscription=8,top=congested,load=1.1")
    assert cell.problem().fingerprint() == named.fingerprint()
    assert (cell.cost, cell.congested) == (40.0, True)
    for scenario in SCENARIOS:
        assert Cell(scenario).problem().fingerprint() == get_scenario(f"dally-{scenario}-v1").fingerprint()
    assert Cell("poisson", load=usual_load("poisson")) == Cell("poisson")  # a cell that is in two sweeps is played once
    assert usual_load("batch") is None
    slow, usual = Cell("poisson", links=0.25).problem(), Cell("poisson").problem()
    assert slow.network.topology.nic_GBps == usual.network.topology.nic_GBps / 4
    assert slow.fingerprint() != usual.fingerprint()


def test_the_card_covers_all_documented_runs() -> None:
    runs = load_card("dally").runs(quick=False)
    assert len({run.seed for run in runs}) >= 10
    assert min(run.seed for run in runs) >= 200_000  # seeds for reports: nothing was trained or chosen on them
    told = [(*sorted(run.labels.items(), key=str), run.seed) for run in runs]
    assert len(set(told)) == len(told)  # labels identify runs
    played = {(run.problem.fingerprint(), run.scheduler, run.seed) for run in runs if run.seed == runs[0].seed}
    for cell in SUITE:
        fingerprint = cell.problem().fingerprint()
        players = POLICIES if cell in EVERYONES else VARIANTS
        assert all((fingerprint, POLICIES[policy][1], runs[0].seed) in played for policy in players), cell
    assert {run.labels["gpus"] for run in runs if "gpus" in run.labels} == {256, 512}
    assert {cell.cost for cell in SUITE if cell.scenario == "batch"} == {1, 2, 4, 8, 20}
    quick = load_card("dally").runs(quick=True)
    assert len(quick) < len(runs) / 10
    assert {run.labels["policy"] for run in quick} == {run.labels["policy"] for run in runs}
    assert max(run.problem.workload.jobs for run in quick) <= 250  # those of the authors have thousands of leases each


def test_every_policy_is_a_scheduler() -> None:
    for _, policy in [*POLICIES.values(), *AUTHORS_POLICIES.values()]:
        make_scheduler(policy)
    assert make_scheduler(AUTHORS_POLICIES["consolidated"][1]).preset == "authors"
    runs = load_card("dally").runs(quick=True)
    hashed = [run for run in runs if run.labels["order"] == "hash"]
    assert {run.labels["policy"] for run in hashed} == {*VARIANTS, *AUTHORS_POLICIES}
    assert all(make_scheduler(run.scheduler).order == "hash" for run in hashed if "tiresias" not in run.scheduler)


def test_measures_agree_with_the_job_times() -> None:
    instance = SMALL.instance(3)
    log = play(instance, "dally-no-wait")
    found, times = measure(instance, log), job_times(instance, log)
    assert found["mean_communication_s"] == pytest.approx(times["communication_s"].mean())
    assert [found[percentile(p)] for p in PERCENTILES] == np.percentile(times["jct_s"], PERCENTILES).tolist()
    assert 0 < found["network_share"] < 1
    assert found["rack_share"] + found["network_share"] < 1
    consolidated = measure(instance, play(instance, "dally-fully-consolidated"))
    assert consolidated["network_share"] == 0.0  # no gang is larger than a rack
    assert consolidated["mean_communication_s"] < found["mean_communication_s"]


def test_ratios_are_paired_by_seed_and_averaged_geometrically() -> None:
    """Dally takes 1/2 of its rival's time in one cell and 1/8 in the other, on seeds with very different times."""
    cells = [Cell("batch"), Cell("poisson")]
    share = {cells[0]: 0.5, cells[1]: 0.125}
    results = made_up(
        lambda cell, policy, seed: 10.0**seed * (share[cell] if policy == "dally" else 1), cells, ["dally", "fifo"]
    )
    place = load_card("dally").scope(results, cell=cells[0], every=[*cells, Cell("trace")])
    one = place.value("geometric(ratios('mean_jct_s', cell, 'dally', 'fifo'))")
    assert (one.mean, one.low, one.high) == pytest.approx((0.5, 0.5, 0.5))
    over = place.value("swept('mean_jct_s', every, 'dally', 'fifo')")
    assert over.mean.mean == pytest.approx(0.25)
    assert (over.best[0], over.worst[0], over.best_run, over.cells) == (cells[1], cells[0], 0.125, 2)
    assert place.value("swept('mean_jct_s', every, 'dally', 'srtf')") is None
    assert sweep({}) is None
    assert geometric(np.array([1.0, 4.0])).mean == pytest.approx(2.0)


def test_targets_hold_exactly_where_they_should() -> None:
    cells = [cell for cell in SUITE if cell.scenario == "poisson" and cell.load is None and cell.gpus == 256]

    def value(waits: float) -> Value:
        held = {"consolidated": 0.1, "dally": waits, "no-wait": 1.0}
        return lambda cell, policy, seed: (1 + held.get(policy, 0.5) * cell.cost) * (1 + seed)

    found = load_card("dally").findings

    def holds(results: Results) -> dict[str, bool]:
        return {finding.claim[:3]: finding.holds for finding in found(results) if finding.claim[:3] < "(d)"}

    policies = [*VARIANTS, "tiresias", "gandiva"]
    assert holds(made_up(value(0.3), cells, policies)) == {"(a)": True, "(b)": True, "(c)": True}
    assert holds(made_up(value(0.95), cells, policies)) == {"(a)": False, "(b)": True, "(c)": True}
    assert holds(made_up(value(1.0), cells, policies)) == {"(a)": False, "(b)": True, "(c)": False}
    assert holds(made_up(value(0.05), cells, policies)) == {"(a)": True, "(b)": False, "(c)": True}
    reported = [finding for finding in found(made_up(value(0.3), cells, policies)) if "(d)" in finding.claim]
    assert {finding.claim.rpartition(" below ")[2] for finding in reported if finding.holds} >= {"Tiresias"}
    assert not any(finding.holds for finding in reported if "fully consolidated" in finding.claim)


def test_a_history_of_no_length_is_no_wait() -> None:
    """Hazard 1: without a history both timers are 0, and the policy is no wait, event for event."""
    instance = SMALL.instance(1)
    assert play(instance, "dally:hist=0").digest() == play(instance, "dally-no-wait").digest()
    assert play(instance, "dally").digest() != play(instance, "dally-no-wait").digest()


def test_the_leak_keeps_gpus_from_working() -> None:
    """Hazard 3: with quirk Q1 the whole cluster is leased and barely works; without it, leased GPUs work."""
    instance = AuthorsCell("nvswitch", "poisson").problem().instance(1)
    tidy, leaky = (
        measure_leak(instance, play(instance, spec), spec)
        for spec in (f"dally:preset={name}" for name in ("authors", "authors_published"))
    )
    for hours in SAMPLES_H:
        assert tidy[f"leased_at_{hours}h"] == tidy[f"working_at_{hours}h"] <= 1
        assert leaky[f"working_at_{hours}h"] <= leaky[f"leased_at_{hours}h"] <= 1
    assert leaky["leased_at_96h"] == 1.0
    assert leaky["working_at_96h"] < tidy["working_at_96h"] / 2


def test_queueing_by_model_sums_to_that_of_all_jobs() -> None:
    """Hazard 5: weighted by running time, the models' queueing is that of all jobs."""
    instance = Cell("poisson", load=1.1).problem(jobs=120).instance(1)
    log = play(instance, "dally")
    found, times = measure_starving(instance, log, "dally"), job_times(instance, log)
    profiles = instance.workload.profiles.rows["name"][instance.workload.jobs["profile"]]
    waited = sum(found[f"queueing_{name}"] * times["service_s"][profiles == name].sum() for name in set(profiles))
    assert waited == pytest.approx(times["queueing_s"].sum())
    assert all(0 < value <= 1 for name, value in found.items() if name.startswith("nw_"))


def test_the_authors_conditions() -> None:
    batch, poisson = (cell.problem() for cell in AUTHORS_CELLS[:2])
    assert (batch.instance(0).workload.jobs["arrival_s"] == 0).all()
    assert poisson.fingerprint() == get_scenario("dally-authors-v1").fingerprint()
    assert len({cell.problem().fingerprint() for cell in AUTHORS_CELLS}) == len(AUTHORS_CELLS)


def test_the_command_prints_claims_and_targets_and_writes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cell, "problem", lambda cell, jobs, play=Cell.problem: play(cell, 25))
    monkeypatch.setattr(AuthorsCell, "problem", lambda cell, jobs, play=AuthorsCell.problem: play(cell, 25))
    result = CliRunner().invoke(app, ["reproduce", "dally", "--quick", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for words in ("up to -69 %", "up to -83 %", "up to -98 %", "its simulator", "Which trends hold", "(d) reported"):
        assert words in result.output
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert {finding["claim"][:3] for finding in data["findings"]} == {"(a)", "(b)", "(c)", "(d)", "(e)"}
    with (tmp_path / "results.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(data["runs"])
    assert all(float(row["finished"]) == float(row["jobs"]) for row in rows)
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert 2 <= lines.index("") <= 10  # title and summary
    assert lines[1].startswith("holds in")
    sweeps = ["oversubscription_variants", "oversubscription_rivals"]
    for name in ("claims", *sweeps, "jct", "hazards", "hazards_more"):
        assert ink(tmp_path / f"{name}.png") > 0.02
    assert not list(tmp_path.glob("load_*.png"))  # a quick call plays one load of each top tier


def test_figures_show_only_played_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a quick call:
    two costs in poisson, one in other scenarios, and links a quarter as fast under congestion.
    """
    pytest.importorskip("matplotlib")
    cells = [
        Cell("poisson"),
        *(Cell(name, "congested") for name in SCENARIOS),
        Cell("poisson", "congested", links=0.25),
    ]
    results = made_up(lambda cell, policy, seed: cell.cost + cell.links, cells, ["dally", "no-wait", "tiresias"])
    drawn = {}
    monkeypatch.setattr(figures_module, "save", lambda figure, path: drawn.update({path.stem: figure}))
    card = load_card("dally")
    kept = {name: spec for name, spec in card.data["figures"].items() if name != "jct.png" and "more" not in name}
    kept["hazards.png"].pop("seeds_of")
    card.data = {**card.data, "figures": kept}
    card.draw(results, tmp_path)
    assert "load_rivals" not in drawn
    assert [list(axes.get_xticks()) for axes in drawn["oversubscription_rivals"].axes] == [[4.0, 20.0]] * 2
    [links] = [axes for axes in drawn["hazards"].axes if axes.get_title().startswith("6")]
    ratios = [line for line in links.lines if line.get_label() in links.get_legend_handles_labels()[1]]
    assert len(ratios) == 4
    assert all(list(line.get_xdata()) == [0.25, 1.0] for line in ratios)
    assert all("congested" in str(line.get_label()) for line in ratios)
    assert list(links.get_xticks()) == [0.25, 1.0]
