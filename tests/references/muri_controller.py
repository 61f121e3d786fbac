"""Muri's controller on its testbed, written from the published rules, and nothing of the simulator.

Source: Y. Zhao et al., SIGCOMM 2022, github.com/Rivendile/Muri, cluster_exp/run.py and jobs.py. Time goes in rounds. At
a boundary the controller decides if a job arrived or ended in the last round, or (LAS) changed its queue. Then all
gangs stop, the whole queue is scanned, each gang that fits gets GPUs (up to a node's in one node, more on whole free
nodes), and all that get GPUs start, also those that had some. A job that ends inside a round
frees its GPUs at the boundary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Controller:
    """A cluster of ``nodes`` x ``gpus``; ``limits`` [GPU s] of the queues: None = shortest remaining time first."""

    nodes: int
    gpus: int
    round_s: float
    start_s: float = 0.0  # of each start, also of a gang that had GPUs
    limits: tuple[float, ...] | None = None
    on_event: bool = True  # whether an event is enough to restart all; otherwise some gang must start or stop
    starts: dict[int, int] = field(default_factory=dict)

    def run(self, arrival_s: list[float], gang: list[int], run_s: list[float]) -> list[float]:
        """Return when each job ends [s]."""
        jobs = range(len(gang))
        left, held, end = list(run_s), [0.0] * len(gang), [math.nan] * len(gang)
        queues: list[list[int]] = [[] for _ in range(len(self.limits or ()) + 1)]
        coming = sorted(jobs, key=lambda job: (arrival_s[job], job))
        runs: dict[int, float] = {}  # job -> when its progress began or was last counted
        self.starts = dict.fromkeys(jobs, 0)
        tick = 0
        while coming or any(queues):
            now = tick * self.round_s
            decide = False
            for job in sorted(runs):  # in the order of arrival
                queue = next(q for q in queues if job in q)
                if runs[job] + left[job] <= now:
                    end[job] = runs.pop(job) + left[job]
                    queue.remove(job)
                    decide = True
                    continue
                held[job] += self.round_s
            while coming and arrival_s[coming[0]] <= now:
                queues[0].append(coming.pop(0))
                decide = True
            for job in sorted(runs) if self.limits else ():
                while (at := next(i for i, q in enumerate(queues) if job in q)) < len(queues) - 1:
                    if gang[job] * held[job] < self.limits[at]:
                        break
                    queues[at].remove(job)
                    queues[at + 1].append(job)
                    decide = True
            if decide:
                self.decide(now, queues, gang, left, runs)
            tick += 1
        return end

    def decide(
        self, now: float, queues: list[list[int]], gang: list[int], left: list[float], runs: dict[int, float]
    ) -> None:
        """Scan the queue, and start what fits."""

        def rest(job: int) -> float:
            return left[job] - max(now - runs[job], 0.0) if job in runs else left[job]

        order = [job for queue in queues for job in queue]
        if self.limits is None:
            order.sort(key=rest)
            queues[0][:] = order  # the next sort begins with this order
        free = [self.gpus] * self.nodes
        placed = []
        for job in order:
            whole, part = divmod(gang[job], self.gpus)
            empty = [node for node in range(self.nodes) if free[node] == self.gpus]
            some = [node for node in range(self.nodes) if free[node] >= part]
            if len(empty) < whole or (whole == 0 and not some):
                continue
            if whole == 0:
                free[min(some, key=lambda node: free[node])] -= part
            for node in empty[:whole]:
                free[node] = 0
            placed.append(job)
        restart = self.on_event or set(placed) != set(runs)
        for job in list(runs):
            if restart or job not in placed:
                left[job] = rest(job)
                del runs[job]
        for job in placed:
            if job not in runs:
                runs[job] = now + self.start_s
                self.starts[job] += 1
        if self.limits is not None:
            for queue in queues:
                queue.sort(key=lambda job: job not in runs)
