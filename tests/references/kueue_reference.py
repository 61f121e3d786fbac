"""Kueue 0.14 for one resource, in plain Python: written from its public source, not from this package.

Sources: pkg/cache/scheduler (resource_node.go, fair_sharing.go), pkg/scheduler (scheduler.go, fair_sharing_iterator.go,
flavorassigner) and pkg/scheduler/preemption. Three rules are ours (docs/kueue.md): cycles follow each other at one time
until nothing changes; victims are found when the turn of a job comes; and a job that started at this time, or was
preempted since the last arrival or completion, is no victim. Preemption is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from gpusched_env.problem.tenants import Tenant


@dataclass
class Policies:
    """The fields of a ClusterQueue, and fair sharing, which is one switch for all of them."""

    queueing: str = "best-effort"
    within: str = "never"
    reclaim: str = "never"
    borrow_within: str = "never"
    threshold: float = math.inf
    fair: bool = False
    initial: bool = True


@dataclass(eq=False)
class Work:
    """A workload; ``row`` is its place by creation."""

    row: int
    queue: Node
    at: float
    gpus: int
    left_s: float
    priority: float
    started: list[float] = field(default_factory=list)
    reserved_at: int = 0  # number of its latest admission
    preempted_in: int = -1  # changes at its latest preemption
    ends_s: float = math.inf


@dataclass(eq=False)
class Node:
    """A ClusterQueue (no children) or a Cohort."""

    name: str
    parent: Node | None
    nominal: int  # own
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    weight: float = 1.0
    children: list[Node] = field(default_factory=list)
    usage: int = 0
    running: list[Work] = field(default_factory=list)
    policies: Policies = field(default_factory=Policies)

    @property
    def subtree_quota(self) -> int:
        return self.nominal + sum(child.subtree_quota - child.guaranteed for child in self.children)

    @property
    def guaranteed(self) -> int:
        return 0 if self.lending_limit is None else max(0, self.subtree_quota - self.lending_limit)

    @property
    def local_available(self) -> int:
        return max(0, self.guaranteed - self.usage)

    @property
    def available(self) -> int:
        if self.parent is None:
            return self.subtree_quota - self.usage
        above = self.parent.available
        if self.borrowing_limit is not None:
            stored, used = self.subtree_quota - self.guaranteed, max(0, self.usage - self.guaranteed)
            above = min(above, stored - used + self.borrowing_limit)
        return self.local_available + above

    @property
    def potential(self) -> int:
        if self.parent is None:
            return self.subtree_quota
        most = self.guaranteed + self.parent.potential
        return most if self.borrowing_limit is None else min(most, self.subtree_quota + self.borrowing_limit)

    @property
    def path(self) -> list[Node]:
        """The cohorts above it, up to the root."""
        return [] if self.parent is None else [self.parent, *self.parent.path]

    @property
    def height(self) -> int:
        return max((child.height + 1 for child in self.children), default=0)

    @property
    def queues(self) -> Iterator[Node]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.queues

    def add(self, gpus: int) -> None:
        beyond = gpus - self.local_available
        self.usage += gpus
        if self.parent is not None and beyond > 0:
            self.parent.add(beyond)

    def remove(self, gpus: int) -> None:
        stored = self.usage - self.guaranteed
        self.usage -= gpus
        if self.parent is not None and stored > 0:
            self.parent.remove(min(gpus, stored))

    def borrows(self, gpus: int = 0) -> bool:
        return self.usage + gpus > self.subtree_quota

    def share(self) -> float:
        """PreciseWeightedShare of the only resource."""
        if self.parent is None or not self.borrows():
            return 0.0
        lendable = self.parent.potential
        return (self.usage - self.subtree_quota) * 1000.0 / lendable / self.weight if lendable > 0 else 0.0


def lowest_subtree(queue: Node, gpus: int) -> tuple[int, bool]:
    """Height of the lowest subtree whose quota a request fits into, and whether it is smaller than the whole tree."""
    if not queue.borrows(gpus):
        return 0, True
    gpus -= queue.local_available
    for node in queue.path:
        if not node.borrows(gpus):
            return node.height, node.parent is not None
        gpus -= node.local_available
    return queue.path[-1].height, False


class Kueue:
    """A cluster without any physical limit besides the quotas."""

    def __init__(
        self,
        tree: Sequence[Tenant],
        jobs: Sequence[tuple],
        gpus: int,
        policies: Policies,
        own: Mapping[str, Policies] = MappingProxyType({}),
    ) -> None:
        self.policies = policies
        self.root = Node("", None, 0)
        self.nodes = {"": self.root}
        for t in tree:  # parents first
            node = Node(t.name, self.nodes[t.parent], t.quota, t.borrow, t.lend, t.weight)
            node.policies = own.get(t.name, policies)
            node.parent.children.append(node)
            self.nodes[t.name] = node
        quota = {"": gpus} | {t.name: t.quota for t in tree}
        whole: dict[str, int] = {}
        for node in reversed(self.nodes.values()):  # a quota includes those below
            below = sum(whole[child.name] for child in node.children)
            whole[node.name] = max(quota[node.name], below)
            node.nominal = whole[node.name] - below
        ordered = enumerate(sorted(jobs, key=lambda job: job[0]))
        self.jobs = [Work(row, self.nodes[name], at, n, s, p) for row, (at, name, n, s, p) in ordered]
        self.waiting: dict[Node, list[Work]] = {queue: [] for queue in self.root.queues}
        self.parked: dict[Work, bool] = {}  # True = until the next time, False = until a job ends or is preempted
        self.now, self.changes, self.admissions, self.preemptions = 0.0, 0, 0, 0
        self.spared = self.met_spared = False

    # --- candidates

    def newest_of_lowest(self, work: Work) -> tuple[float, int]:
        return work.priority, -work.reserved_at

    def may(self, policy: str, job: Work, other: Work) -> bool:
        """SatisfiesPreemptionPolicy."""
        lower = other.priority < job.priority
        if policy == "newer":
            return lower or (other.priority == job.priority and other.row > job.row)
        return policy == "any" or (policy == "lower" and lower)

    def is_victim(self, work: Work) -> bool:
        spared = work.started[-1] == self.now or work.preempted_in == self.changes
        self.spared |= spared
        self.met_spared |= spared
        return not spared

    def candidates(self, job: Work, queue: Node) -> list[Work]:
        policy = job.queue.policies.within if queue is job.queue else job.queue.policies.reclaim
        found = [work for work in queue.running if self.may(policy, job, work)]
        return sorted((work for work in found if self.is_victim(work)), key=self.newest_of_lowest)

    def fits(self, job: Work, borrowing: bool) -> bool:
        return (borrowing or not job.queue.borrows(job.gpus)) and job.gpus <= job.queue.available

    def fill_back(self, job: Work, targets: list[Work], borrowing: bool) -> list[Work]:
        kept = targets[-1:]
        for work in targets[-2::-1]:
            work.queue.add(work.gpus)
            if not self.fits(job, borrowing):
                work.queue.remove(work.gpus)
                kept.append(work)
        for work in kept:
            work.queue.add(work.gpus)
        return kept

    def classical(self, job: Work) -> list[Work]:
        queue, p = job.queue, job.queue.policies
        hierarchy: list[tuple[Work, Node]] = []
        priority: list[tuple[Work, Node]] = []
        advantage, rest, below = not queue.borrows(job.gpus), max(0, job.gpus - queue.local_available), queue
        for cohort in queue.path:
            others = [other for child in cohort.children if child is not below for other in child.queues]
            borrowers = [other for other in others if self.lends(other, cohort)]
            (hierarchy if advantage else priority).extend(
                (work, cohort) for other in borrowers for work in self.candidates(job, other)
            )
            advantage = advantage or not cohort.borrows(rest)
            rest, below = max(0, rest - cohort.local_available), cohort
        own = [(work, queue) for work in self.candidates(job, queue)]
        hierarchy.sort(key=lambda pair: self.newest_of_lowest(pair[0]))
        priority.sort(key=lambda pair: self.newest_of_lowest(pair[0]))
        forbidden = p.borrow_within == "never"
        if not (hierarchy or priority) or (forbidden and queue.usage >= queue.nominal):
            attempts = [True]
        else:
            attempts = [False, True] if forbidden and not hierarchy else [True, False]
        for borrowing in attempts:
            targets = list[Work]()
            for work, lca in hierarchy + priority + own:
                if work.queue is not queue:
                    barred = forbidden or work.priority >= job.priority or work.priority > p.threshold
                    if borrowing and barred and (work, lca) in priority:
                        continue
                    if not self.lends(work.queue, lca):
                        continue
                work.queue.remove(work.gpus)
                targets.append(work)
                if self.fits(job, borrowing):
                    return self.fill_back(job, targets, borrowing)
            for work in targets:
                work.queue.add(work.gpus)
        return []

    def lends(self, queue: Node, lca: Node) -> bool:
        """Whether a queue and the cohorts above it, below ``lca``, use more than their quotas."""
        path = [queue, *queue.path]
        return all(node.borrows() for node in path[: path.index(lca)])

    def fair(self, job: Work) -> list[Work]:
        queue = job.queue
        left: dict[Node, list[Work]] = {}
        for other in self.root.queues:
            if other is queue or (queue.policies.reclaim != "never" and other.borrows()):
                left[other] = self.candidates(job, other)
        queue.add(job.gpus)
        targets, retry = list[Work](), list[Work]()

        def take(work: Work) -> bool:
            work.queue.remove(work.gpus)
            targets.append(work)
            queue.remove(job.gpus)
            fits = self.fits(job, True)
            queue.add(job.gpus)
            return fits

        fits, pruned = False, set[Node]()
        while not fits and self.root not in pruned:
            target = self.highest(self.root, queue, left, pruned)
            if target is queue:
                fits = take(left[queue].pop(0))
            elif target is not None:
                mine, theirs = self.below_lca(queue, target)
                share = mine.share()
                while left[target] and not fits:
                    work = left[target].pop(0)
                    target.remove(work.gpus)
                    passes = share <= theirs.share()
                    target.add(work.gpus)
                    if passes:
                        fits = take(work)
                        break
                    retry.append(work)
        if not fits and self.policies.initial:
            left = {other: [work for work in retry if work.queue is other] for other in self.root.queues}
            pruned = set()
            while not fits and self.root not in pruned:
                target = self.highest(self.root, queue, left, pruned)
                if target is not None:
                    mine, theirs = self.below_lca(queue, target)
                    if mine.share() < theirs.share():
                        fits = take(left[target].pop(0))
                    pruned.add(target)
        queue.remove(job.gpus)
        if fits:
            return self.fill_back(job, targets, True)
        for work in targets:
            work.queue.add(work.gpus)
        return []

    def below_lca(self, queue: Node, target: Node) -> tuple[Node, Node]:
        mine, theirs = ([*reversed(node.path), node] for node in (queue, target))
        return next((a, b) for a, b in zip(mine, theirs, strict=False) if a is not b)

    def highest(self, cohort: Node, queue: Node, left: dict[Node, list[Work]], pruned: set[Node]) -> Node | None:
        """Walk from the root to the target with the highest share; None = something has only been pruned."""
        best: Node | None = None
        for child in cohort.children:
            if child in pruned:
                continue
            keeps = child is queue or child in queue.path
            if (child.share() == 0.0 and not keeps) or (not child.children and not left.get(child)):
                pruned.add(child)
            elif best is None or child.share() > best.share():
                best = child
            elif child.share() == best.share():
                if child.children and not best.children:  # of equal cohorts, the first: ours
                    best = child
                elif not child.children and not best.children:
                    order = [(left[n][0].queue is queue, *self.newest_of_lowest(left[n][0])) for n in (child, best)]
                    best = child if order[0] < order[1] else best
        if best is None:
            pruned.add(cohort)
            return None
        return self.highest(best, queue, left, pruned) if best.children else best

    # --- cycles

    def mode(self, job: Work) -> str:
        p, queue = job.queue.policies, job.queue
        if job.gpus <= queue.available:
            return "fit"
        while_borrowing = p.borrow_within != "never" or (self.policies.fair and p.reclaim != "never")
        if job.gpus <= queue.nominal or lowest_subtree(queue, job.gpus)[1] or while_borrowing:
            return "preempt"
        return "nofit"

    def targets(self, job: Work) -> list[Work]:
        if self.mode(job) != "preempt":
            return []
        return self.fair(job) if self.policies.fair else self.classical(job)

    def level(self, job: Work, targets: Sequence[Work]) -> int:
        for work in targets:
            work.queue.remove(work.gpus)
        level, _ = lowest_subtree(job.queue, job.gpus)
        for work in targets:
            work.queue.add(work.gpus)
        return level

    def head(self, queue: Node) -> Work | None:
        strict = queue.policies.queueing == "strict"
        for job in sorted(self.waiting[queue], key=lambda job: (-job.priority, job.row)):
            if job not in self.parked:
                return job
            if strict:
                break
        return None

    def nominate(self) -> dict[Node, tuple[Work, int, str]]:
        """For each queue: its job, the level from which it borrows, and "fit", "preempt", or "reserve" only."""
        entries: dict[Node, tuple[Work, int, str]] = {}
        for queue in self.waiting:
            while queue not in entries and (job := self.head(queue)) is not None:
                self.spared = False
                targets = self.targets(job)
                if self.mode(job) == "fit" or targets:
                    entries[queue] = (job, self.level(job, targets), self.mode(job))
                else:
                    self.parked[job] = self.spared
        if entries:
            for queue, jobs in self.waiting.items():
                p = queue.policies
                if jobs and queue not in entries and p.queueing == "strict" and p.reclaim != "any":
                    job = min(jobs, key=lambda job: (-job.priority, job.row))
                    if self.mode(job) == "preempt":
                        entries[queue] = (job, self.level(job, ()), "reserve")
        return entries

    def pop(self, entries: dict[Node, tuple[Work, int, str]]) -> tuple[Work, int, str]:
        if not self.policies.fair:
            return entries.pop(min(entries, key=lambda q: (entries[q][1], -entries[q][0].priority, entries[q][0].row)))
        shares: dict[tuple[Node, Node], float] = {}
        for queue, (job, _, _) in entries.items():
            queue.add(job.gpus)
            shares |= {(queue, node): node.share() for node in (queue, *queue.path)}
            queue.remove(job.gpus)

        def winner(node: Node) -> Node | None:
            if not node.children:
                return node if node in entries else None
            won = [(child, found) for child in node.children if (found := winner(child)) is not None]
            order = {found: (shares[found, child], -entries[found][0].priority, entries[found][0].row)
                     for child, found in won}  # fmt: skip
            return min(order, key=order.__getitem__) if order else None

        queue = winner(self.root)
        assert queue is not None
        return entries.pop(queue)

    def cycle(self) -> bool:
        """Run one cycle; return whether a job was admitted."""
        entries = self.nominate()
        admitted = False
        reserved: list[tuple[Node, int]] = []
        while entries:
            job, level, mode = self.pop(entries)
            queue = job.queue
            if mode == "reserve":
                most = queue.nominal - queue.usage
                if level > 0:
                    most = job.gpus if queue.borrowing_limit is None else most + queue.borrowing_limit
                reserved.append((queue, max(0, min(job.gpus, most))))
                queue.add(reserved[-1][1])
                continue
            for node, gpus in reserved:
                node.remove(gpus)
            targets = self.targets(job) if mode == "preempt" else []
            for node, gpus in reserved:
                node.add(gpus)
            for work in targets:
                work.queue.remove(work.gpus)
            if job.gpus <= queue.available and (targets or mode == "fit"):
                admitted = True
                for work in targets:
                    self.evict(work)
                self.admit(job)
            else:
                for work in targets:
                    work.queue.add(work.gpus)
        for node, gpus in reserved:
            node.remove(gpus)
        return admitted

    def evict(self, work: Work) -> None:
        work.left_s = work.ends_s - self.now
        work.ends_s, work.preempted_in = math.inf, self.changes
        work.queue.running.remove(work)
        self.waiting[work.queue].append(work)
        self.preemptions += 1
        self.parked = {job: for_now for job, for_now in self.parked.items() if for_now}

    def admit(self, job: Work) -> None:
        self.admissions += 1
        job.queue.add(job.gpus)
        job.queue.running.append(job)
        self.waiting[job.queue].remove(job)
        job.started.append(self.now)
        job.reserved_at = self.admissions
        job.ends_s = self.now + job.left_s

    def run(self) -> list[list[float]]:
        """Return the times at which each job starts and starts again."""
        coming = list(self.jobs)
        while True:
            running = [work for queue in self.waiting for work in queue.running]
            if not coming and not running:
                return [job.started for job in self.jobs]
            self.now = min([work.ends_s for work in running] + [job.at for job in coming[:1]])
            self.parked = {job: False for job, for_now in self.parked.items() if not for_now}
            for work in running:
                if work.ends_s == self.now:
                    work.queue.remove(work.gpus)
                    work.queue.running.remove(work)
                    self.changes += 1
                    self.parked.clear()
            while coming and coming[0].at == self.now:
                job = coming.pop(0)
                self.waiting[job.queue].append(job)
                self.changes += 1
            while self.cycle():
                pass
