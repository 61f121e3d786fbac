"""Kernels that divide the GPUs of a cluster among elastic jobs, size by size."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.portable.keys import rounded_key

DONE: Final = -1.0  # gain of a job that gets no more GPUs


class Grants(Handle):
    """The sizes and speeds of all jobs that have arrived, and the jobs among which GPUs are divided now."""

    sizes = array(np.int32, "known", "steps")  # [GPU] by job and step
    rates = array(np.float64, "known", "steps")  # [iterations/s], 0 at step 0
    last = array(np.int32, "known")  # the last step of each job
    listed = array(np.int32, "known")  # the jobs among which GPUs are divided, in order
    left = array(np.float64, "known")  # remaining length of each of ``listed``
    step = array(np.int32, "known")  # step that each of ``listed`` has been granted
    gain = array(np.float64, "known")  # scratch


@kernel
def list_jobs(sim: Run, g: Grants) -> int:
    """Write the jobs that run in no checkpoint, then those that wait, to ``listed``; return their number."""
    w = sim.world
    count = 0
    for i in range(w["running"]):
        number = sim.running[i]
        r = sim.replicas[number]
        if r["phase"] == ACTIVE and sim.jobs[r["job"]]["replica"] == number:  # a job in copies is listed once
            g.listed[count] = r["job"]
            count += 1
    for i in range(w["first_waiting"], w["first_waiting"] + w["waiting"]):
        g.listed[count] = sim.waiting[i]
        count += 1
    return count


@kernel
def all_hold(sim: Run, g: Grants, count: int) -> bool:
    """Return whether each of ``listed[:count]`` holds as many GPUs as it has been granted."""
    for i in range(count):
        row = g.listed[i]
        number = sim.jobs[row]["replica"]
        held = sim.replicas[number]["gpus"] if number >= 0 else 0
        if held != g.sizes[row, g.step[i]]:
            return False
    return True


@kernel
def more(g: Grants, i: int) -> int:
    """Return the number of GPUs to the next step; a job on its last step has none."""
    row = g.listed[i]
    return g.sizes[row, g.step[i] + 1] - g.sizes[row, g.step[i]]


@kernel
def one_size_each(g: Grants, count: int, gpus: int) -> int:
    """Grant each of ``listed[:count]`` its smallest size, in order, as far as the GPUs last; return those left."""
    for i in range(count):
        g.step[i] = 0
        if more(g, i) <= gpus:
            gpus -= more(g, i)
            g.step[i] = 1
    return gpus


@kernel
def time_gain(g: Grants, i: int) -> float:
    """Return the seconds by which the next size shortens the remaining time, per GPU that it adds; DONE = none."""
    row = g.listed[i]
    step = g.step[i]
    if step == 0 or step == g.last[row]:
        return DONE
    return rounded_key((g.left[i] / g.rates[row, step] - g.left[i] / g.rates[row, step + 1]) / more(g, i))


@kernel
def by_gain(g: Grants, count: int, gpus: int) -> None:
    """Grant sizes to the largest gain in time, until no GPU is left or no job gains (Optimus); ties: the first job."""
    gpus = one_size_each(g, count, gpus)
    for i in range(count):
        g.gain[i] = time_gain(g, i)
    while gpus > 0:
        best = 0
        for i in range(1, count):
            if g.gain[i] > g.gain[best]:
                best = i
        if g.gain[best] <= 0.0:
            return
        if more(g, best) > gpus:
            g.gain[best] = DONE
        else:
            gpus -= more(g, best)
            g.step[best] += 1
            g.gain[best] = time_gain(g, best)


@kernel
def equally(g: Grants, count: int, gpus: int) -> None:
    """Grant each job its smallest size, then sizes to the jobs with the fewest GPUs; ties: the first job."""
    gpus = one_size_each(g, count, gpus)
    while True:
        fewest = -1
        for i in range(count):
            row = g.listed[i]
            may = g.step[i] > 0 and g.step[i] < g.last[row] and more(g, i) <= gpus
            if may and (fewest < 0 or g.sizes[row, g.step[i]] < g.sizes[g.listed[fewest], g.step[fewest]]):
                fewest = i
        if fewest < 0:
            return
        gpus -= more(g, fewest)
        g.step[fewest] += 1


@kernel
def fits(g: Grants, i: int, gpus: int) -> bool:
    """Return whether a job has a larger and faster size, for which the GPUs suffice."""
    row = g.listed[i]
    step = g.step[i]
    return step < g.last[row] and g.rates[row, step + 1] > g.rates[row, step] and more(g, i) <= gpus


@kernel
def longer_wins(g: Grants, shorter: int, longer: int) -> bool:
    """Return whether the job that ends later gets the next GPUs; a job without GPUs is never the shorter one."""
    a = g.listed[shorter]
    b = g.listed[longer]
    now = g.rates[a, g.step[shorter]]
    of_shorter = (g.rates[a, g.step[shorter] + 1] - now) / now
    then = g.rates[b, g.step[longer] + 1]
    return rounded_key((then - g.rates[b, g.step[longer]]) / then) > rounded_key(of_shorter)


@kernel
def later_wins(g: Grants, first: int, later: int) -> bool:
    """Return whether the later one of two jobs gets the next GPUs (AFS); it may be the one that would finish first."""
    a = g.listed[first]
    b = g.listed[later]
    if g.step[first] == 0 and g.step[later] == 0:
        return rounded_key(g.left[later] / g.rates[b, 1]) < rounded_key(g.left[first] / g.rates[a, 1])
    ends_first = g.left[first] / g.rates[a, g.step[first]] if g.step[first] > 0 else np.inf
    ends_later = g.left[later] / g.rates[b, g.step[later]] if g.step[later] > 0 else np.inf
    if rounded_key(ends_later) < rounded_key(ends_first):
        return not longer_wins(g, later, first)
    return longer_wins(g, first, later)


@kernel
def by_comparison(g: Grants, count: int, gpus: int) -> None:
    """Grant sizes one by one, each to the job that wins every comparison in order (AFS)."""
    for i in range(count):
        g.step[i] = 0
    while True:
        winner = -1
        for i in range(count):
            if fits(g, i, gpus) and (winner < 0 or later_wins(g, winner, i)):
                winner = i
        if winner < 0:
            return
        gpus -= more(g, winner)
        g.step[winner] += 1


@kernel
def in_order(g: Grants, count: int, gpus: int) -> None:
    """Grant each job its smallest size, then up to ``left`` GPUs, then all sizes that speed it up; each in order."""
    gpus = one_size_each(g, count, gpus)
    for turn in range(2):
        for i in range(count):
            while g.step[i] > 0 and fits(g, i, gpus):
                if turn == 0 and g.sizes[g.listed[i], g.step[i] + 1] > g.left[i]:
                    break
                gpus -= more(g, i)
                g.step[i] += 1
