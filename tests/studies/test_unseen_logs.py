"""The study of unseen logs: changes of its windows, its rivals, and the ratios that it prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from helpers import play, random_instance, unit_instance
from published import TRACES

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError
from gpusched_env.metrics import job_times
from gpusched_env.simulator import ClusterView, Decision, Simulation
from gpusched_env.support.commands import run_script
from studies.unseen_logs.__main__ import main as study
from studies.unseen_logs.further import QUARTERS, WITHOUT, players
from studies.unseen_logs.oracles import AGENT, ORACLES, KnownOrder, known_order
from studies.unseen_logs.rivals import RIVALS, spec_of, tuned_rivals
from studies.unseen_logs.scores import Score, ratio, score
from studies.unseen_logs.timing import decision_points, one_of_each_log
from studies.unseen_logs.windows import (
    BURST_JOBS,
    FREE,
    LOGS,
    PARTS,
    TEST,
    TRAINING,
    Change,
    Window,
    list_windows,
    make_windows,
)

NOWHERE = Path("no-logs")  # windows of generators need no logs


def drawn() -> Window:
    """A window of synthetic jobs on tiers."""
    return next(one for one in list_windows(TRAINING) if one.part == "philly-drawn" and one.nodes == 8)


def test_a_window_of_a_generator_is_its_scenario() -> None:
    window = drawn()
    assert window.instance(NOWHERE).fingerprint() == window.scenario(NOWHERE).instance(window.seed).fingerprint()


@pytest.mark.parametrize("change", [Change(nodes=4), Change(burst=4.0), Change(load=1.3), Change(cost=10.0)])
def test_a_change_keeps_the_jobs_and_their_models(change: Change) -> None:
    before, after = drawn().instance(NOWHERE), drawn().instance(NOWHERE, change)
    for name in ("id", "gpus", "iterations"):
        np.testing.assert_array_equal(after.workload.jobs[name], before.workload.jobs[name])
    models = [one.workload.profiles.rows["name"][one.workload.jobs["profile"]] for one in (before, after)]
    np.testing.assert_array_equal(*models)
    assert after.cluster.gpus == change.nodes * before.cluster.gpus
    assert after.semantics.restore_s == change.cost * before.semantics.restore_s
    # The offered load is GPU time / (time of the arrivals x GPUs).
    spans_s = [np.ptp(one.workload.jobs["arrival_s"]) for one in (before, after)]
    assert spans_s[1] * change.nodes * change.load == pytest.approx(spans_s[0], rel=1e-9)


def test_arrivals_come_in_bursts() -> None:
    before_s, after_s = (
        np.sort(drawn().instance(NOWHERE, change).workload.jobs["arrival_s"])
        for change in (Change(), Change(burst=4.0))
    )
    firsts = slice(0, None, BURST_JOBS)
    scale = np.diff(after_s[firsts]) / np.diff(before_s[firsts])  # the last burst ends earlier, so the load was scaled
    np.testing.assert_allclose(scale, scale[0], rtol=1e-9)
    for begin in range(0, len(after_s), BURST_JOBS):
        burst = slice(begin, begin + BURST_JOBS)
        assert np.ptp(after_s[burst]) * 4.0 == pytest.approx(scale[0] * np.ptp(before_s[burst]), rel=1e-6)


@pytest.mark.parametrize("wrong", [{"load": 0.0}, {"cost": -1.0}, {"nodes": 0}, {"burst": 0.5}, {"load": np.nan}])
def test_impossible_changes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=f"{next(iter(wrong))} factor is"):
        Change(**wrong)  # type: ignore[arg-type]


def test_results_of_changed_windows_have_their_own_names() -> None:
    changes = [Change(), Change(load=1.3), Change(cost=10.0), Change(nodes=4), Change(burst=4.0), Change(1.3, 10.0)]
    assert len({change.suffix for change in changes}) == len(changes)
    assert Change().suffix == ""


def test_no_window_serves_both_uses() -> None:
    """Parts of one log that serve both uses do not overlap in time."""
    for name, part in PARTS.items():
        for other in PARTS.values():
            if part.log == other.log and part.use != other.use:
                assert part.stop_s <= other.start_s or other.stop_s <= part.start_s, name
    assert not {window.name for window in list_windows(TRAINING)} & {window.name for window in list_windows(TEST)}


def test_further_windows_are_others_of_the_same_parts() -> None:
    if not (TRACES / "muri").is_dir():
        pytest.skip("needs the published logs")
    studied = [window for window in list_windows(TEST) if window.part == "muri-3" and window.nodes == 8]
    assert list(make_windows(TRACES, ["muri-3"], 8)) == studied  # the study's own are made again
    further = [next(make_windows(TRACES, ["muri-3"], 8, further=k)) for k in QUARTERS]
    assert len({(window.start_s, window.seed) for window in (studied[0], *further)}) == 1 + len(QUARTERS)
    assert [window.network for window in further] == ["leaf-spine", "tiers", "leaf-spine"]


def test_variants_of_the_agent_lack_one_part_of_its_rule_each() -> None:
    instance, found = drawn().instance(NOWHERE), players()
    assert found[AGENT].info.parameters.keys() >= {"agent"}
    rule = found[AGENT].rule  # type: ignore[attr-defined]
    for name, changes in WITHOUT.items():
        other = found[name].rule  # type: ignore[attr-defined]
        different = {
            one.name
            for one in dataclasses.fields(rule)
            if not np.array_equal(getattr(rule, one.name), getattr(other, one.name))
        }
        assert different == set(changes), name
    assert len({score(found[name], instance).mean_jct_s for name in (AGENT, *WITHOUT)}) > 2


def test_every_tuned_rival_can_be_built_and_reads_no_run_times() -> None:
    specs = tuned_rivals()
    assert set(specs) == {rival.name for rival in RIVALS}
    assert not any(make_scheduler(spec).clairvoyant for spec in specs.values())


def test_elements_of_a_tuple_are_relative_to_the_one_before() -> None:
    rival = next(one for one in RIVALS if one.name == "tiresias")
    values = {"thresholds/0": 100.0, "thresholds/1": 20.0, "queues": "3", "placement": "pack"}
    assert spec_of(rival, values) == "tiresias:placement=pack,thresholds=100/2000"
    assert spec_of(rival, values | {"queues": "2"}) == "tiresias:placement=pack,thresholds=100"


def test_ratios_are_geometric_means_inside_their_intervals() -> None:
    base = Score(10.0, 20.0, 15.0, 100.0, 0, 0.0, 5)
    rival = {"a": base, "b": with_mean(base, 40.0)}
    agents = [{"a": with_mean(base, 5.0), "b": with_mean(base, 80.0)}] * 2
    middle, low, high = ratio(agents, rival, ["a", "b"], "mean_jct_s")
    assert middle == pytest.approx(1.0)
    assert (low, high) == (pytest.approx(0.5), pytest.approx(2.0))
    assert ratio(agents, agents[0], ["a", "b"], "mean_jct_s") == (1.0, 1.0, 1.0)


def with_mean(score: Score, mean_jct_s: float) -> Score:
    return type(score)(**{**{name: getattr(score, name) for name in score.__struct_fields__}, "mean_jct_s": mean_jct_s})


@pytest.mark.parametrize("spec", ["learned", "fifo-skip", "tiresias"])
def test_decision_points_are_those_that_a_scheduler_is_asked_at(spec: str) -> None:
    instance = random_instance(3)

    class Asked(type(make_scheduler(spec))):  # type: ignore[misc]
        asked = 0

        def decide(self, view: ClusterView) -> Iterable[Decision]:
            self.asked += 1
            return super().decide(view)

    scheduler = make_scheduler(spec)
    scheduler.__class__ = Asked
    Simulation(instance).run(scheduler)
    assert decision_points(spec, instance) == scheduler.asked > 0


def test_one_window_of_each_log_is_timed() -> None:
    chosen = one_of_each_log(32)
    assert set(chosen) == set(LOGS.values())
    assert all(LOGS[window.part] == log and window.nodes <= 32 for log, window in chosen.items())


def test_the_oracle_of_order_plays_the_least_remaining_gpu_time_first() -> None:
    """Three gangs fill one machine in turn; the longest arrives first, the shortest last."""
    instance = unit_instance([0.0, 1.0, 2.0], [4, 4, 4], [5_000.0, 1_200.0, 300.0], "1x4")
    finish_s = job_times(instance, play(instance, known_order()))["finish_s"]
    assert finish_s.tolist() == pytest.approx([5_000.0 + 1_200.0 + 300.0, 1.0 + 300.0 + 1_200.0, 2.0 + 300.0])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_oracle_of_order_decides_as_its_compiled_loop(seed: int) -> None:
    class Decided(KnownOrder):
        """Without the compiled loop."""

        def player(self, simulation: Simulation) -> None:  # type: ignore[override]
            return None

    oracle = known_order()
    slow = Decided.playing(oracle.rule)
    instance = random_instance(seed, jobs=30)
    assert play(instance, oracle).digest() == play(instance, slow).digest()


def test_on_a_free_network_every_placement_is_ideal() -> None:
    instance = dataclasses.replace(drawn(), network=FREE).instance(NOWHERE)
    assert (instance.iteration_s == instance.iteration_s[:, :1]).all()
    np.testing.assert_allclose(instance.ideal_s, drawn().instance(NOWHERE).ideal_s)
    assert [free for _, free in ORACLES.values()] == [False, True, True]


def test_a_wrong_choice_is_told_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["unseen_logs", "logs", "--agents", "a", "--use", "foo"])
    with pytest.raises(SystemExit):
        run_script(study)
    told = " ".join(capsys.readouterr().err.replace("│", "").split())
    assert "Invalid value for '--use': 'foo' is not one of 'test', 'training'" in told
