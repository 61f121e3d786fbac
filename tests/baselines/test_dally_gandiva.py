"""Gandiva as in Dally's simulator: affinity, order of first starts, moves to a tighter tier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import play, simulate

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import PREEMPT, RESUME, START, EventLog
from gpusched_env.metrics import validate
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Scheduler
from tests.baselines.test_dally import Row, problem, times


def gandiva(**parameters: Any) -> Scheduler:
    return make_scheduler("gandiva-dally", **({"preset": "authors"} | parameters))


def places(instance: Instance, log: EventLog, number: int) -> list[tuple[float, int, list[int]]]:
    """Time, tier and GPUs of each start of a job, given by id."""
    validate(instance, log)
    row = instance.workload.jobs["id"].tolist().index(number)
    events = np.flatnonzero(np.isin(log.events["kind"], [START, RESUME]) & (log.events["job"] == row))
    return [
        (float(log.events["time_s"][k]), int(log.events["tier"][k]), sorted(log.gang(int(k)).tolist())) for k in events
    ]


def test_a_machine_hosts_one_gang_size_while_other_machines_have_room() -> None:
    gangs = [1, 2, 1, 3, 2, 2]
    instance = problem(1, 3, [(k, 0.0, gang, 600.0) for k, gang in enumerate(gangs)])
    log = simulate(instance, gandiva())
    first = [places(instance, log, k)[0][2] for k in range(len(gangs))]
    # Job 1 opens machine 0, job 2 machine 1, job 3 machine 2. The last job finds its machine full and none unused: it
    # goes to machine 0.
    assert first == [[0], [4, 5], [1], [8, 9, 10], [6, 7], [2, 3]]


def test_machines_with_the_same_number_share_one_affinity_in_all_racks() -> None:
    instance = problem(2, 2, [(1, 0.0, 1, 600.0), (2, 0.0, 1, 600.0), (3, 0.0, 2, 600.0)])
    log = simulate(instance, gandiva())
    # Machine 2 has number 0 in the second rack, and more free GPUs than machine 0.
    assert [places(instance, log, k)[0][2] for k in (1, 2, 3)] == [[0], [8], [4, 5]]


def test_offers_go_in_descending_order_of_first_start_and_to_new_jobs_last() -> None:
    rows: list[Row] = [(1, 0.0, 4, 7200.0), (2, 10.0, 4, 600.0)]
    # The lease of job 1 ends at 3,600 s, but job 1 is offered GPUs before job 2; offers come 4 s later, 1 s for each
    # GPU.
    assert times(problem(1, 1, rows), gandiva()) == {1: (0.0, 7204.0), 2: (7208.0, 7808.0)}
    # Job 1 started before job 2: once both have run, job 2 is asked first.
    halves: list[Row] = [(1, 0.0, 2, 7200.0), (2, 10.0, 2, 7200.0), (3, 20.0, 4, 60.0)]
    found = times(problem(1, 1, halves), gandiva())
    assert found[3][0] == max(found[1][1], found[2][1]) + 2.0


def test_a_gang_larger_than_a_machine_gets_gpus_drawn_by_the_seed() -> None:
    instance = problem(2, 2, [(1, 0.0, 6, 600.0)])
    drawn = [places(instance, simulate(instance, gandiva(), seed=seed), 1)[0][2] for seed in range(200)]
    assert drawn[7] == places(instance, simulate(instance, gandiva(), seed=7), 1)[0][2]
    assert all(len(set(gpus)) == 6 for gpus in drawn)
    share = np.bincount(np.concatenate(drawn), minlength=16) / 200
    assert np.abs(share - 6 / 16).max() < 5 * np.sqrt(6 / 16 * 10 / 16 / 200)


# Jobs 1 and 2 leave one GPU on each of two machines. Job 3 takes both at 10 s, at half speed, until job 1 ends.
SPREAD: list[Row] = [(1, 0.0, 3, 600.0), (2, 0.0, 3, 7200.0), (3, 10.0, 2, 1200.0)]


def test_a_gang_that_spans_machines_moves_at_the_end_of_its_step() -> None:
    instance = problem(1, 2, SPREAD)
    log = simulate(instance, gandiva())
    # The offer comes at 603 s; its fifth step of 120 s ends at 610 s, with 300 of 1,200 iterations done.
    assert places(instance, log, 3) == [(10.0, RACK, [3, 7]), (610.0, MACHINE, [0, 1])]
    assert times(instance, gandiva())[3] == (10.0, 1510.0)


def test_without_steps_a_gang_moves_at_once() -> None:
    instance = problem(1, 2, SPREAD, step=0)
    assert places(instance, simulate(instance, gandiva()), 3)[1] == (603.0, MACHINE, [0, 1])
    assert times(instance, gandiva())[3] == (10.0, 603.0 + 1200.0 - 593.0 / 2)


def test_a_place_is_kept_while_the_gang_that_moves_is_checkpointed() -> None:
    rows = [*SPREAD, (4, 605.0, 2, 60.0)]
    instance = problem(1, 2, rows, step=0, cost_s=30.0)
    log = simulate(instance, gandiva())
    assert places(instance, log, 3) == [(10.0, RACK, [3, 7]), (633.0, MACHINE, [0, 1])]
    # Job 4 finds one GPU at 605 s; the GPUs of job 3 become free at 633 s and are offered 2 s later.
    assert places(instance, log, 4) == [(635.0, MACHINE, [2, 3])]
    assert times(instance, gandiva())[3] == (10.0, 663.0 + 1200.0 - 593.0 / 2)


def test_a_gang_larger_than_a_machine_moves_into_a_rack() -> None:
    # For any six GPUs drawn from three racks of eight, one rack has six other GPUs; the arrival at 100 s triggers an
    # offer.
    instance = problem(3, 2, [(1, 0.0, 6, 1200.0), (2, 100.0, 1, 60.0)])
    log = simulate(instance, gandiva())
    assert [place[:2] for place in places(instance, log, 1)] == [(0.0, NETWORK), (240.0, RACK)]
    assert times(instance, gandiva())[1] == (0.0, 240.0 + 2 * 1140.0)


def test_no_gang_stops_before_its_lease_is_over_but_for_a_tighter_tier() -> None:
    instance = problem(2, 2, [(k, 97.0 * k, 1 + k % 7, 900.0 + 60 * (k % 5)) for k in range(40)])
    log = play(instance, gandiva(lease_s=1200.0))
    moves = 0
    since: dict[int, tuple[float, int]] = {}
    stopped: dict[int, tuple[float, int]] = {}
    for event in log.events:
        job, time_s = int(event["job"]), float(event["time_s"])
        if event["kind"] in (START, RESUME):
            if job in stopped and stopped[job][0] == time_s and int(event["tier"]) < stopped[job][1]:
                moves += 1
                del stopped[job]
            since[job] = (time_s, int(event["tier"]))
        elif event["kind"] == PREEMPT and time_s - since[job][0] < 1200.0 - 4 * 60.0:
            assert job not in stopped  # the previous grant was followed by a move
            stopped[job] = (time_s, since[job][1])
    assert not stopped
    assert moves > 0


@pytest.mark.parametrize("parameters", [{"preset": "authors_published"}, {"preemption": "victim"}])
def test_options_that_contradict_gandiva_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(SchedulerError, match="gandiva"):
        Dally(policy="gandiva", **parameters)


def test_verdicts_name_moves_and_random_places() -> None:
    run = DelayRun(problem(1, 2, SPREAD), gandiva(), keep_verdicts=True)  # type: ignore[arg-type]
    run.play()
    of_job = run.verdicts[run.verdicts["job"] == 2]
    assert of_job[["time_s", "tier"]].tolist()[:2] == [(10.0, 3), (603.0, 1)]
