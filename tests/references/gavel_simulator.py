"""Gavel's published simulator in plain Python with dictionaries, for jobs that share no GPUs.

stanford-futuredata/gavel, commit c4fa400, scheduler/scheduler.py and policies/{fifo,isolated,min_total_duration}.py. It
shares no code with our rounds and programs except the call of ECOS, so both can be compared job by job. All constants
and orders are those of these files. Shares are not rounded, as there; the package rounds them (docs/portability.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from studies.reproduce.gavel_interior import inside

ROUND_S, RESET_S = 360.0, 1_920.0
SHUFFLE_SEED = 5
FAILURES = 5  # after so many rounds in a row without a step on each worker the job is dropped
SERVED = ("v100", "p100", "k80")  # order of the types in a round

Shares = dict[int, dict[str, float]]
Policy = Callable[["State"], Shares]


@dataclass
class Job:
    arrival_s: float
    gang: int
    steps: float
    rates: dict[str, float]  # [steps/s] of the whole gang


@dataclass
class State:
    """The jobs in the system by number, in order of arrival."""

    cluster: dict[str, int]
    jobs: dict[int, Job] = field(default_factory=dict)
    left: dict[int, float] = field(default_factory=dict)  # steps


class Fifo:
    """FIFO as in the head of the repository: the drawn type is not the type that is used."""

    def __init__(self, seed: int = 0) -> None:
        self.random, self.held = random.Random(seed), dict[int, str]()

    def __call__(self, state: State) -> Shares:
        room = dict(state.cluster)
        queue = [job for job in state.jobs if job not in self.held]
        for job in sorted(self.held):
            held = self.held[job]
            if job in state.jobs:
                room[held] -= state.jobs[job].gang
                continue
            del self.held[job]
            if queue:
                head = state.jobs[queue[0]]
                if head.gang <= room[held] and head.rates[held] > 0:
                    room[held] -= head.gang
                    self.held[queue.pop(0)] = held
        listed = sorted(name for name in room if room[name] > 0)
        while queue and listed:
            job = queue.pop(0)
            able = [place for place, name in enumerate(listed) if room[name] >= state.jobs[job].gang]
            if not able:
                break
            drawn, used = able[self.random.randrange(len(able))], listed[-1]
            if state.jobs[job].rates[used] > 0:
                self.held[job] = used
                room[used] -= state.jobs[job].gang
                if room[used] == 0:
                    del listed[drawn]
        return {job: {name: float(self.held.get(job) == name) for name in room} for job in state.jobs}


def fifo_perf(state: State) -> Shares:
    room, shares = dict(state.cluster), {job: dict.fromkeys(state.cluster, 0.0) for job in state.jobs}
    for number, job in state.jobs.items():
        able = [name for name in sorted(room) if 0 < room[name] >= job.gang]
        if not able:
            break
        best = max(able, key=lambda name: job.rates[name])  # ties: the first
        if job.rates[best] > 0:
            shares[number][best] = 1.0
            room[best] -= job.gang
    return shares


def isolated(state: State) -> Shares:
    shares = {}
    for number, job in state.jobs.items():
        part = {name: state.cluster[name] / len(state.jobs) / job.gang for name in sorted(state.cluster)}
        whole = max(1.0, sum(part.values()))
        shares[number] = {name: value / whole for name, value in part.items()}
    return shares


def min_total_duration(state: State, knows_types: bool) -> Shares:
    """Bisect the makespan between 100 and 10^6 s to 5 %; return the shares of the last feasible one."""
    if not state.jobs:
        return {}
    names, numbers = sorted(state.cluster), list(state.jobs)
    jobs, types = len(numbers), len(names)
    shown = [[job.rates[name if knows_types else "v100"] for name in names] for job in state.jobs.values()]
    gangs = np.array([[float(job.gang)] * types for job in state.jobs.values()])
    per_type = np.zeros((types, jobs * types))
    per_job, rates = np.zeros((2, jobs, jobs * types))
    for job in range(jobs):
        of_job = slice(job * types, (job + 1) * types)
        per_type[:, of_job], per_job[job, of_job], rates[job, of_job] = np.diag(gangs[job]), 1.0, shown[job]
    rows = sparse.csr_array(np.vstack([per_type, per_job, -rates]))
    room = [*(state.cluster[name] for name in names), *[1.0] * jobs]
    left = np.array([state.left[number] for number in numbers])
    low, high, last, found = 100.0, 1e6, 1e6, None
    while found is None:
        while 1.05 * low < high:
            middle = (low + high) / 2
            shares = inside(rows, np.concatenate([room, -left / middle]))
            if shares is None:
                low = middle
            else:
                found, high = shares, middle
        low, high, last = last, last * 10, last * 10
    table = found.clip(0.0, 1.0).reshape(jobs, types).tolist()
    return {number: dict(zip(names, row, strict=True)) for number, row in zip(numbers, table, strict=True)}


def completion_s(
    jobs: list[Job], cluster: dict[str, int], policy: Policy, queue_only: bool, fixed_order: bool, seed: int = 0
) -> dict[int, float]:
    """Completion time of each job [s], from arrival to end; dropped jobs are absent.

    Parameters
    ----------
    queue_only : jobs without a share never run (names that begin with FIFO)
    fixed_order : types are served in one order (names with Perf); else in a random one
    """
    shuffler = random.Random(seed + SHUFFLE_SEED)
    state, waiting, ends = State(cluster), list(enumerate(jobs)), {}
    had: dict[int, dict[str, float]] = {}
    owed: dict[int, dict[str, float]] = {}
    total, left, failed = dict.fromkeys(cluster, 0.0), state.left, dict[int, int]()
    shares: Shares = {}
    running: list[tuple[float, int, str, float]] = []  # end, job, type, steps
    now = jobs[0].arrival_s
    last_reset, round_end, changed = 0.0, None, True
    round_begin = 0.0
    unfinished = len(jobs)
    while unfinished:
        if not waiting and not running:
            last_reset = 0.0
        if running:
            now = max(end for end, *_ in running)
            round_begin = round_begin if round_end is None else round_end
            round_end = now
        elif waiting:
            now = waiting[0][1].arrival_s
        for end, number, name, steps in sorted(running, key=lambda task: (-task[0], task[1])):
            job = state.jobs[number]
            pieces = [steps // job.gang] * (job.gang - 1)
            if min([*pieces, steps - sum(pieces)]) <= 0:
                failed[number] += 1
                changed = True
                gone = failed[number] >= FAILURES
            else:
                failed[number] = 0
                left[number] -= steps
                had[number][name] += end - round_begin
                total[name] += end - round_begin
                gone = left[number] <= 0
                if gone:
                    ends[number] = end - job.arrival_s
            if gone:
                del state.jobs[number]
                changed, unfinished = True, unfinished - 1
        while waiting and waiting[0][1].arrival_s <= now:
            number, job = waiting.pop(0)
            state.jobs[number], left[number], failed[number] = job, job.steps, 0
            had[number], owed[number] = dict.fromkeys(cluster, ROUND_S / 2), dict.fromkeys(cluster, 0.0)
            changed = True
        if changed and (now - last_reset >= RESET_S or last_reset == 0):
            for number in state.jobs:
                for name in cluster:
                    due = shares[number][name] * (now - last_reset) if number in shares else 0.0
                    owed[number][name] += due - (had[number][name] - ROUND_S / 2)
                    had[number][name] = ROUND_S / 2
            total = dict.fromkeys(cluster, ROUND_S / 2 * len(state.jobs))
            last_reset, shares, changed = now, policy(state), False
        served = [name for name in SERVED if name in cluster]
        if not fixed_order:
            shuffler.shuffle(served)
        running = [
            (now + steps / job.rates[name], number, name, steps)
            for number, name in _round(state, served, shares, had, owed, total, queue_only)
            if number in shares
            for job in [state.jobs[number]]
            for steps in [min(int(job.rates[name] * ROUND_S), left[number])]
        ]
    return ends


def _round(
    state: State, served: list[str], shares: Shares, had: dict[int, dict[str, float]],
    owed: dict[int, dict[str, float]], total: dict[str, float], queue_only: bool,
) -> list[tuple[int, str]]:  # fmt: skip
    """The type of each job in the next round."""
    taken: dict[int, str] = {}
    for name in served:
        room = state.cluster[name]
        keys = {}
        for number, job in state.jobs.items():
            share = shares.get(number, {}).get(name, 0.0)
            fraction = had[number][name] / total[name] if total[name] else 0.0
            priority = 0.0
            if share > 0 and job.rates[name] > 0:
                priority = share / fraction if fraction > 0 else share * 1e9
            keys[number] = (priority, owed[number][name], share)
        for number in sorted(keys, key=lambda number: keys[number], reverse=True):
            job = state.jobs[number]
            idle = queue_only and keys[number][0] <= 0
            if number not in taken and job.rates[name] > 0 and not idle and job.gang <= room:
                taken[number] = name
                room -= job.gang
    return list(taken.items())
