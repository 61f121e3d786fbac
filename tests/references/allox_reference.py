"""AlloX with gangs as in uw-mad-dash/shockwave, scheduler/policies/allox.py, with the Hungarian method of textbooks."""

from collections.abc import Sequence


def least_cost(cost: Sequence[Sequence[float]]) -> list[int]:
    """Return the column of each row of an assignment of least total cost; at most as many rows as columns."""
    rows, columns = len(cost), len(cost[0])
    u, v, match = [0.0] * (rows + 1), [0.0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        match[0], at = row, 0
        least, way, done = [float("inf")] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while match[at]:
            done[at] = True
            here, step, following = match[at], float("inf"), 0
            for column in range(1, columns + 1):
                if not done[column]:
                    reduced = cost[here - 1][column - 1] - u[here] - v[column]
                    if reduced < least[column]:
                        least[column], way[column] = reduced, at
                    if least[column] < step:
                        step, following = least[column], column
            for column in range(columns + 1):
                if done[column]:
                    u[match[column]] += step
                    v[column] -= step
                else:
                    least[column] -= step
            at = following
        while at:
            match[at], at = match[way[at]], way[at]
    found = [0] * rows
    for column in range(1, columns + 1):
        if match[column]:
            found[match[column] - 1] = column - 1
    return found


def allocate(
    run_s: Sequence[Sequence[float]], age_s: Sequence[float], gangs: Sequence[int], gpus: Sequence[int], alpha: float,
    before: dict[int, list[float]],
) -> dict[int, list[float]]:  # fmt: skip
    """Return the shares of each job on each type; ``before`` = those of the last call, of the jobs that are present."""
    placed = [job for job in range(len(run_s)) if sum(before.get(job, [0.0])) == 1.0]
    unplaced = [job for job in range(len(run_s)) if job not in placed]
    workers = []
    for kind, count in enumerate(gpus):
        workers += [kind] * (count - sum(before[job][kind] == 1.0 for job in placed))
    unplaced.sort(key=lambda job: -age_s[job])
    unplaced = unplaced[: max(int(alpha * len(unplaced)), len(workers))]
    shares = {job: list(before.get(job, [0.0] * len(gpus))) for job in range(len(run_s))}
    if workers and unplaced:
        cost = [
            [place * run_s[job][kind] + age_s[job] for place in range(1, len(unplaced) + 1) for kind in workers]
            for job in unplaced
        ]
        queues: dict[int, list[tuple[int, int]]] = {}
        for job, column in zip(unplaced, least_cost(cost), strict=True):
            place, worker = divmod(column, len(workers))
            queues.setdefault(worker, []).append((place, job))
        for worker, queue in queues.items():
            job = max(queue)[1]
            shares[job] = [0.0] * len(gpus)
            shares[job][workers[worker]] = 1.0 / gangs[job]
    return shares
