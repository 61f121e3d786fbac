"""Kernels of Pollux's genetic search for an allocation, a table of the GPUs that each job has on each node."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array, helper, kernel

KEEP: Final = 0.1  # probability that a mutation resets a row to the present allocation
CLEAR: Final = 0.1  # probability that a mutation picks a row, and then that it clears one of its entries
CROSS: Final = 0.9  # probability that two parents are crossed, in NSGA-II
MOST_NODES: Final = 16  # largest number of nodes of a gang
WORD: Final = 0xFFFFFFFF

SEARCH_DTYPE: Final = np.dtype(
    [
        ("jobs", "<i8"),
        ("nodes", "<i8"),
        ("population", "<i8"),  # number of allocations that survive a generation
        ("survivors", "<i8"),  # number of allocations that have survived
        ("avoids", "<i8"),  # 1 = a node hosts at most one gang that spans nodes
        ("published", "<i8"),  # 1 = NSGA-II with two objectives, as in the authors' code
        ("random", "<i8"),  # state of the generator of random numbers, 1 .. 2**32-1
    ]
)


class Search(Handle):
    """The input of a search, its scratch, and its allocations: ``order`` lists survivors and children, best first."""

    search = array(SEARCH_DTYPE)
    capacity = array(np.int32, "nodes")  # [GPU]
    present = array(np.int32, "jobs", "nodes")  # [GPU] the present allocation
    most = array(np.int32, "jobs")  # [GPU] largest size that a job may have now
    speed_up = array(np.float64, "jobs", "spread", "sizes")  # by spread (1 = several nodes) and number of GPUs
    # cost of a job; changed 1 = its row differs from ``present``
    term = array(np.float64, "jobs", "changed", "spread", "sizes")
    states = array(np.int32, "states", "jobs", "nodes")  # [GPU]
    cost = array(np.float64, "states")  # mean of the terms: the smaller, the better
    waste = array(np.float64, "states")  # - speed-ups / GPUs of the used nodes: smaller is better; if ``published``
    front = array(np.int32, "states")  # number of the front of Pareto, 0 = not dominated
    gap = array(np.float64, "states")  # crowding distance within the front
    last = array(np.int32, "states")  # scratch: the last allocation of each front
    order = array(np.int32, "states")
    shuffled = array(np.int32, "nodes")  # scratch: a random order of the nodes
    used = array(np.int32, "nodes")  # scratch
    there = array(np.int32, "nodes")  # scratch


@helper
def draw(s: Search, below: int) -> int:
    """Draw an integer from 0 to ``below`` - 1 by Marsaglia's xorshift32."""
    x = s.search["random"]
    x ^= (x << 13) & WORD
    x ^= x >> 17
    x ^= (x << 5) & WORD
    s.search["random"] = x
    return (x * below) >> 32


@helper
def happens(s: Search, probability: float) -> bool:
    """Return True with a probability."""
    return draw(s, 1 << 30) < probability * (1 << 30)


@kernel
def mutate(s: Search, k: int) -> None:
    """Change rows of an allocation: reset some to the present allocation, clear entries, use free GPUs."""
    jobs, nodes = s.search["jobs"], s.search["nodes"]
    for j in range(jobs):
        if happens(s, KEEP):
            for n in range(nodes):
                s.states[k, j, n] = s.present[j, n]
        if happens(s, CLEAR):
            for n in range(nodes):
                if s.states[k, j, n] > 0 and happens(s, CLEAR):
                    s.states[k, j, n] = 0
    count_uses(s, k)
    chance = 1.0 / jobs
    for n in range(nodes):
        if s.used[n] >= s.capacity[n]:
            continue
        there = max(s.there[n], 1)
        chance_there = chance + (1.0 / there - 1.0 / there / jobs)
        for j in range(jobs):
            now = s.states[k, j, n]
            if happens(s, chance_there if now > 0 else chance):
                s.states[k, j, n] = now + draw(s, s.capacity[n] - now + 1)


@helper
def count_uses(s: Search, k: int) -> None:
    """Count the GPUs of each node that an allocation uses, and the jobs that are there."""
    for n in range(s.search["nodes"]):
        s.used[n] = 0
        s.there[n] = 0
    for j in range(s.search["jobs"]):
        for n in range(s.search["nodes"]):
            s.used[n] += s.states[k, j, n]
            s.there[n] += 1 if s.states[k, j, n] > 0 else 0


@kernel
def avoid_as_published(s: Search, k: int, j: int, spreads: bool) -> None:
    """Clear a job's entries on nodes that two gangs of several nodes want, and then those of all later jobs."""
    for n in range(s.search["nodes"]):
        if spreads and s.states[k, j, n] > 0:
            s.used[n] += 1
        if s.used[n] > 1:
            s.states[k, j, n] = 0


@kernel
def avoid(s: Search, k: int, j: int) -> None:
    """Clear the entries of a gang of several nodes on nodes that another such gang has."""
    spread = 0
    for n in range(s.search["nodes"]):
        spread += 1 if s.states[k, j, n] > 0 else 0
    if s.search["published"]:
        avoid_as_published(s, k, j, spread > 1)
    elif spread > 1:
        for n in range(s.search["nodes"]):
            if s.states[k, j, n] > 0:
                if s.used[n]:
                    s.states[k, j, n] = 0
                s.used[n] = 1


@kernel
def repair(s: Search, k: int) -> None:
    """Make an allocation feasible: one gang of several nodes per node, sizes up to ``most``, nodes not overfull."""
    jobs, nodes = s.search["jobs"], s.search["nodes"]
    for n in range(nodes):
        s.used[n] = 0  # number of gangs of several nodes that are here, or want to be
        s.shuffled[n] = n
    for n in range(nodes - 1, 0, -1):
        other = draw(s, n + 1)
        s.shuffled[n], s.shuffled[other] = s.shuffled[other], s.shuffled[n]
    for j in range(jobs if s.search["avoids"] else 0):
        avoid(s, k, j)
    for j in range(jobs):
        wanted = 0
        for n in range(nodes):
            wanted += s.states[k, j, n]
        if wanted > s.most[j] or nodes > MOST_NODES:
            cut_to_most(s, k, j)
    for n in range(nodes):
        s.used[n] = s.capacity[n]
    for j in range(jobs):
        for n in range(nodes):
            s.states[k, j, n] = min(s.states[k, j, n], s.used[n])
            s.used[n] -= s.states[k, j, n]


@kernel
def cut_to_most(s: Search, k: int, j: int) -> None:
    """Cut a row to the largest size that its job may have, and to ``MOST_NODES`` nodes; the first nodes keep theirs."""
    left = s.most[j]
    places = MOST_NODES
    for i in range(s.search["nodes"]):
        n = s.shuffled[i]
        if s.states[k, j, n] > 0:
            count = min(s.states[k, j, n], left) if places > 0 else 0
            places -= 1 if count > 0 else 0
            left -= count
            s.states[k, j, n] = count


@kernel
def assess(s: Search, k: int) -> None:
    """Compute the cost of an allocation and, if it counts, its waste."""
    jobs, nodes = s.search["jobs"], s.search["nodes"]
    total = 0.0
    sum_of_speeds = 0.0
    for j in range(jobs):
        gpus = 0
        spread = 0
        changed = 0
        for n in range(nodes):
            count = s.states[k, j, n]
            gpus += count
            spread += 1 if count > 0 else 0
            changed += 1 if count != s.present[j, n] else 0
        spreads = 1 if spread > 1 else 0
        sum_of_speeds += s.speed_up[j, spreads, gpus]
        total += s.term[j, 1 if changed > 0 else 0, spreads, gpus]
    s.cost[k] = total / jobs
    if s.search["published"]:
        count_uses(s, k)
        used_gpus = 0
        for n in range(nodes):
            used_gpus += s.capacity[n] if s.used[n] > 0 else 0
        s.waste[k] = -sum_of_speeds / used_gpus if used_gpus > 0 else 0.0


@kernel
def better_of_two(s: Search) -> int:
    """Return the better one of two random survivors; in NSGA-II, the one that dominates or has the larger gap."""
    first, second = draw(s, s.search["survivors"]), draw(s, s.search["survivors"])
    a, b = s.order[min(first, second)], s.order[max(first, second)]  # in the order of their costs, or of their fronts
    if not s.search["published"] or dominates(s, a, b):
        return a
    if dominates(s, b, a) or s.gap[b] > s.gap[a] or (s.gap[a] == s.gap[b] and happens(s, 0.5)):
        return b
    return a


@kernel
def cross(s: Search, k: int) -> None:
    """Fill two allocations, ``order[k]`` and ``order[k + 1]``, with the rows of two parents, cut at one job."""
    jobs, nodes = s.search["jobs"], s.search["nodes"]
    first, second = better_of_two(s), better_of_two(s)
    cut = draw(s, jobs) if jobs > 1 else 0
    if s.search["published"] and not happens(s, CROSS):
        cut = jobs
    for j in range(jobs):
        for n in range(nodes):
            s.states[s.order[k], j, n] = s.states[first if j < cut else second, j, n]
            s.states[s.order[k + 1], j, n] = s.states[second if j < cut else first, j, n]


@kernel
def sort(s: Search, count: int) -> int:
    """Sort ``order[:count]`` by cost, then waste, equal allocations last; return the number of different ones."""
    for i in range(1, count):
        k = s.order[i]
        at = i
        while at > 0 and comes_first(s, k, s.order[at - 1]):
            s.order[at] = s.order[at - 1]
            at -= 1
        s.order[at] = k
    kept = 1
    for i in range(1, count):  # move what differs from its predecessor forward; twins keep their order behind it
        k = s.order[i]
        last = s.order[kept - 1]
        if differs(s, k, last):
            for at in range(i, kept, -1):
                s.order[at] = s.order[at - 1]
            s.order[kept] = k
            kept += 1
    return kept


@kernel
def differs(s: Search, k: int, other: int) -> bool:
    """Return whether two allocations differ."""
    if s.cost[k] != s.cost[other]:
        return True
    for j in range(s.search["jobs"]):
        different = 0
        for n in range(s.search["nodes"]):
            different += 1 if s.states[k, j, n] != s.states[other, j, n] else 0
        if different > 0:
            return True
    return False


@helper
def comes_first(s: Search, k: int, other: int) -> bool:
    """Return whether an allocation has the smaller cost, or an equal one and, if it counts, the smaller waste."""
    if s.cost[k] != s.cost[other]:
        return s.cost[k] < s.cost[other]
    return s.search["published"] == 1 and s.waste[k] < s.waste[other]


@helper
def dominates(s: Search, k: int, other: int) -> bool:
    """Return whether an allocation is better than another in one objective, and not worse in the other one."""
    no_worse = s.cost[k] <= s.cost[other] and s.waste[k] <= s.waste[other]
    return no_worse and (s.cost[k] < s.cost[other] or s.waste[k] < s.waste[other])


@kernel
def spread_fronts(s: Search, count: int) -> None:
    """Sort ``order[:count]``, which is sorted by cost and waste, by front of Pareto, then by gap (NSGA-II).

    An allocation is dominated by a front exactly if the last one of it dominates it. The gap is the distance of its
    neighbours in shares of the front's extent in each objective; infinite at both ends.
    """
    fronts = 0
    for i in range(count):
        k = s.order[i]
        f = 0
        while f < fronts and dominates(s, s.last[f], k):
            f += 1
        s.front[k] = f
        s.last[f] = k
        fronts = max(fronts, f + 1)
    at = 0
    for f in range(fronts):  # a stable sort by front
        begin = at
        for i in range(begin, count):
            k = s.order[i]
            if s.front[k] == f:
                for j in range(i, at, -1):
                    s.order[j] = s.order[j - 1]
                s.order[at] = k
                at += 1
        set_gaps(s, begin, at)
        for i in range(begin + 1, at):
            k = s.order[i]
            j = i
            while j > begin and s.gap[k] > s.gap[s.order[j - 1]]:
                s.order[j] = s.order[j - 1]
                j -= 1
            s.order[j] = k


@kernel
def set_gaps(s: Search, begin: int, end: int) -> None:
    """Compute the crowding distances of ``order[begin:end]``, a front in the order of its costs."""
    first, last = s.order[begin], s.order[end - 1]
    costs, wastes = s.cost[last] - s.cost[first], s.waste[first] - s.waste[last]
    for i in range(begin, end):
        k = s.order[i]
        if i == begin or i == end - 1:
            s.gap[k] = np.inf
        else:
            before, after = s.order[i - 1], s.order[i + 1]
            s.gap[k] = (s.cost[after] - s.cost[before]) / costs if costs > 0.0 else 0.0
            s.gap[k] += (s.waste[before] - s.waste[after]) / wastes if wastes > 0.0 else 0.0


@kernel
def survive(s: Search, count: int) -> None:
    """Let the best of ``order[:count]`` survive, at most as many as the population, and put them first."""
    kept = sort(s, count)
    if s.search["published"]:
        spread_fronts(s, kept)
        s.search["survivors"] = min(kept, s.search["population"])


@kernel
def search(s: Search, generations: int) -> None:
    """Improve the survivors for a number of generations; afterwards ``order[0]`` is the best allocation found."""
    population = s.search["population"]
    for i in range(s.search["survivors"]):
        repair(s, s.order[i])
        assess(s, s.order[i])
    survive(s, s.search["survivors"])
    for _ in range(generations):
        old = s.search["survivors"]
        for i in range(old, old + population, 2):
            cross(s, i)
            for k in range(i, i + 2):
                mutate(s, s.order[k])
                repair(s, s.order[k])
                assess(s, s.order[k])
        survive(s, old + population)
