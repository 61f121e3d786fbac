"""Entries with refusals: they replay to the same log, are scored by deadlines met, and false refusals are refused."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from entry_case import ABOUT, told, with_decisions, with_run

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import EntryError, MismatchError
from gpusched_env.leaderboard import Entry, Track, make_entry, parse_entry, record, replay, score, verify
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Decision, Refuse, Resize, simulate

SLO = get_scenario("slo-v0")
SMALL = SLO.replace(workload=dataclasses.replace(SLO.workload, jobs=40))


@dataclasses.dataclass(frozen=True)
class SmallTrack(Track):
    """The track slo-v0 with 40 jobs on two seeds."""

    def problem(self, log=None):
        return dataclasses.replace(super().problem(log), scenario=SMALL)


TRACK = SmallTrack("slo-test", "Deadlines", "For tests.", "slo-v0", reports=2, metric="deadlines_met")


@pytest.fixture(scope="module")
def entry() -> Entry:
    return make_entry(TRACK, "elasticflow", ABOUT)


def test_an_entry_with_refusals_and_resizes_verifies(entry: Entry) -> None:
    assert all({"X", "R"} <= set(run.decisions.kinds) for run in entry.runs)
    again = parse_entry(entry.text())
    for run, found in zip(again.runs, verify(again, track=TRACK), strict=True):
        log = simulate(SMALL.instance(run.seed), make_scheduler("elasticflow"), seed=run.seed)
        assert found.digest == run.digest == log.digest()
        assert 0 < found.metrics["admitted_share"] < 1
        assert found.metrics["deadlines_met"] == run.metrics["deadlines_met"]


def first(found: list[Decision], kind: type) -> int:
    return next(number for number, decision in enumerate(found) if isinstance(decision, kind))


def test_a_false_refusal_is_refused(entry: Entry) -> None:
    last = len(SMALL.instance(entry.runs[0].seed).workload) - 1

    def early(other: list[Decision]) -> None:
        other[first(other, Refuse)] = Refuse(last)

    def of_running(other: list[Decision]) -> None:
        number = first(other, Resize)
        other[number] = Refuse(other[number].job)

    for change, says in ((early, "knows the future"), (of_running, "is refused")):
        change(other := told(entry.runs[0].decisions))
        forged = with_run(entry, decisions=with_decisions(entry.runs[0].decisions, other))
        with pytest.raises(MismatchError, match=rf"decision .*Refuse of job .*{says}"):
            verify(forged, track=TRACK)


def test_a_refusal_that_is_left_out_is_refused(entry: Entry) -> None:
    run = entry.runs[0]
    all_told = told(run.decisions)
    kept = [number for number, decision in enumerate(all_told) if not isinstance(decision, Refuse)]
    shorter = with_decisions(run.decisions, [all_told[number] for number in kept], kept)
    with pytest.raises(EntryError):
        replay(SMALL.instance(run.seed), run.seed, shorter)


def test_refusals_replay_without_an_entry() -> None:
    instance = SMALL.instance(0)
    log, decisions = record(instance, make_scheduler("edf-admission"))
    assert "X" in decisions.kinds
    assert replay(instance, 0, decisions).digest() == log.digest()


def test_more_deadlines_met_is_a_larger_score() -> None:
    def runs(*shares: float) -> list[SimpleNamespace]:
        return [SimpleNamespace(seed=seed, metrics={"deadlines_met": x}, bounds={}) for seed, x in enumerate(shares)]

    fifo = runs(0.2, 0.6)
    found = [
        score(entry, fifo, "deadlines_met").mean for entry in (runs(1.0, 1.0), fifo, runs(0.5, 0.9), runs(0.1, 0.1))
    ]
    assert np.allclose(found, [1.0, 0.0, 0.5, -0.5])
