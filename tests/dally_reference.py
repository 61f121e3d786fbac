"""Dally's simulator in plain Python, one event after the other: steps, leases, offers, tuner and quirks.

Written from the rules alone (docs/dally.md, The rules), without the package's simulator.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ARRIVAL, STEP_ENDS, STEP_BEGINS, OFFER = range(4)  # order of events at the same time
Gpu = tuple[int, int, int, int]  # rack, machine of the rack, slot of the machine, GPU of the slot


def thirty_bits(value: float) -> float:
    """Round to 30 significant bits, as the package rounds sort keys."""
    mantissa, power = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, 30)), power - 30)


@dataclass
class Job:
    """A job and its state."""

    id: int
    arrival_s: float
    gpus: int
    iterations: int  # of one GPU
    iteration_s: float = 1.0
    model: str = "VGG"
    left: int = 0
    run_s: float = 0.0
    comp_s: float = 0.0
    service: float = 0.0
    nw: float = 0.0
    last_s: float = 0.0
    queued_s: float = 0.0
    start_s: float = math.nan
    end_s: float = math.nan
    lease_end_s: float = 0.0
    step_end_s: float = 0.0
    won_end_s: float = 0.0
    current: list[Gpu] = field(default_factory=list)
    upcoming: list[Gpu] = field(default_factory=list)
    leaked: list[Gpu] = field(default_factory=list)
    waits: bool = True
    steps: int = 0


@dataclass
class DallySimulator:
    """The authors' rules. ``efficiency(job, gpus)`` prices a placement;
    the two orders are those of machines and slots.
    """

    racks: int
    machines_per_rack: int
    slots_per_machine: int
    gpus_per_slot: int
    jobs: Sequence[Job]
    efficiency: Callable[[Job, list[Gpu]], float]
    step: int = 60
    lease_s: float = 3600.0
    rack_wait: float = 1.0
    nw_wait: float = 2.0
    tuned: bool = False
    hist: float = 24.0
    policy: str = "dally"
    rebid: bool = False
    look_ahead: bool = True
    alias: bool = True
    prune: bool = True
    statistics: bool = True
    machine_order: Sequence[tuple[int, int]] | None = None
    slot_order: Sequence[tuple[int, int, int]] | None = None
    sort: Callable[[list[tuple[int, ...]]], Sequence[tuple[int, ...]]] | None = None
    draw: Callable[[], int] = lambda: 0
    offers: int = 0

    def __post_init__(self) -> None:
        """Start with all GPUs free and no job."""
        self.all = [
            (r, m, s, g)
            for r in range(self.racks)
            for m in range(self.machines_per_rack)
            for s in range(self.slots_per_machine)
            for g in range(self.gpus_per_slot)
        ]
        self.owner: dict[Gpu, Job] = {}
        self.present: list[Job] = []
        self.heap: list[tuple[float, int, int, Job | None]] = []
        self.count = 0
        self.now = 0.0
        self.histories: dict[str, dict[int, list[tuple[float, float]]]] = {"machine": {}, "rack": {}}
        self.gpm = self.slots_per_machine * self.gpus_per_slot
        self.gpr = self.gpm * self.machines_per_rack
        self.affinity: dict[int, int] = {}
        self.grants: list[tuple[float, int, list[Gpu]]] = []

    def queue(self, time_s: float, kind: int, job: Job | None = None) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time_s, kind, self.count, job))

    def free(self) -> list[Gpu]:
        return [gpu for gpu in self.all if gpu not in self.owner]

    def run(self) -> dict[int, Job]:
        self.first_s = min(job.arrival_s for job in self.jobs)
        for job in self.jobs:
            self.queue(job.arrival_s, ARRIVAL, job)
        while self.heap:
            self.now, kind, _, job = heapq.heappop(self.heap)
            if kind == OFFER:
                self.offer()
            elif kind == ARRIVAL:
                self.arrive(job)
            elif kind == STEP_ENDS:
                self.end_step(job)
            else:
                self.begin_step(job)
            if not self.heap and self.present:
                at = self.now
                if self.statistics:
                    first, every = self.first_s + 1.0, 0.1 * self.lease_s
                    at = first + max(math.floor((at - first) / every) + 1.0, 0.0) * every
                    self.statistics = False  # the event queue is empty
                self.queue(at + 60.0, OFFER)
        return {job.id: job for job in self.jobs}

    def arrive(self, job: Job) -> None:
        job.left, job.last_s = job.iterations, self.now
        self.present.append(job)
        if self.free():
            self.queue(self.now, OFFER)

    def begin_step(self, job: Job) -> None:
        job.current, job.upcoming = job.upcoming, []
        step_s = job.iteration_s / self.efficiency(job, job.current) * self.step
        job.step_end_s = self.now + step_s
        self.queue(job.step_end_s, STEP_ENDS, job)

    def end_step(self, job: Job) -> None:
        e = self.efficiency(job, job.current)
        job.run_s += job.iteration_s / e * self.step
        job.service += job.gpus * (job.iteration_s / e * self.step)
        job.comp_s += job.iteration_s * self.step
        job.left = max(job.left - self.step * job.gpus, 0)
        ideal_s = job.iteration_s * job.iterations / job.gpus
        job.nw = thirty_bits((1.0 - job.left / job.iterations) / (job.run_s / ideal_s))
        if self.policy == "gandiva" and job.upcoming:
            self.move(job)
            return
        won, job.upcoming = job.upcoming, []
        job.leaked += won
        if job.left == 0:
            freed = len(job.current) + len(job.leaked)
            for gpu in job.current + job.leaked:
                del self.owner[gpu]
            job.end_s = self.now
            self.present.remove(job)
            self.queue(self.now + freed, OFFER)
            return
        expired, early = self.lease_ends(job, self.now, e)
        if not expired and not early:
            job.upcoming = job.current
            self.queue(self.now, STEP_BEGINS, job)
            return
        if expired and won and self.look_ahead:  # an early end discards them before the look-ahead
            ahead_s = job.iteration_s * self.step / self.efficiency(job, won) / len(won)
            if self.now + ahead_s > job.won_end_s:
                for gpu in won:
                    del self.owner[gpu]
                    job.leaked.remove(gpu)
        for gpu in job.current:
            del self.owner[gpu]
        job.current, job.waits, job.last_s = [], True, self.now
        delay_s = float(job.gpus) if expired or not self.alias else 0.0
        self.queue(self.now + delay_s, OFFER)

    def lease_ends(self, job: Job, time_s: float, e: float) -> tuple[bool, bool]:
        """Whether the lease has expired at the end of a step, and whether the look-ahead ends it early."""
        ahead_s = job.iteration_s * self.step / e / job.gpus
        return time_s >= job.lease_end_s, self.look_ahead and time_s + ahead_s > job.lease_end_s

    def may_move(self, job: Job) -> bool:
        """Whether a gang spans more machines or racks than it must, and the step is not its last."""
        if job.waits or job.upcoming or job.last_s == self.now or job.left <= self.step * job.gpus:
            return False
        if any(self.lease_ends(job, job.step_end_s, self.efficiency(job, job.current))):
            return False
        depth, most = (2, self.gpm) if job.gpus <= self.gpm else (1, self.gpr)
        return job.gpus <= most and len({gpu[:depth] for gpu in job.current}) > 1

    def move(self, job: Job) -> None:
        """Release the gang's GPUs at the end of a step; it continues on those reserved for it."""
        for gpu in job.current:
            del self.owner[gpu]
        job.current, job.last_s, job.lease_end_s = [], self.now, self.now + self.lease_s
        self.grants.append((self.now, job.id, job.upcoming))
        self.queue(self.now, STEP_BEGINS, job)
        self.queue(self.now + job.gpus, OFFER)

    def key(self, job: Job) -> float:
        if self.policy == "gandiva":
            return math.inf if math.isnan(job.start_s) else -job.start_s
        return job.nw if self.policy == "dally" else job.service

    def offer(self) -> None:
        free = self.free()
        bidders = [job for job in self.present if job.waits or (self.rebid and not job.upcoming)]
        if self.policy == "gandiva":
            bidders += [job for job in self.present if self.may_move(job)]
        self.offers += bool(bidders)
        place = {"dally": self.place, "tiresias": self.place_by_skew, "gandiva": self.place_by_affinity}[self.policy]
        for job in sorted(bidders, key=lambda job: (self.key(job), job.last_s, job.id)):
            if len(free) < job.gpus:
                continue
            gpus = place(job, free)
            for gpu in gpus:
                free.remove(gpu)
                self.owner[gpu] = job
            if gpus:
                job.upcoming = gpus
                if job.waits:
                    job.lease_end_s = self.now + self.lease_s
                else:
                    job.won_end_s = self.now + self.lease_s
        for job in self.present:
            if job.waits and job.upcoming:
                job.waits = False
                job.queued_s += self.now - job.last_s
                job.last_s = self.now
                job.start_s = self.now if math.isnan(job.start_s) else job.start_s
                self.grants.append((self.now, job.id, job.upcoming))
                self.queue(self.now, STEP_BEGINS, job)

    def place(self, job: Job, free: list[Gpu]) -> list[Gpu]:
        g, waited = job.gpus, self.now - job.last_s
        for order, depth in ((self.slots(free), 3), (self.machines(free), 2)):
            for place in order:
                inside = [gpu for gpu in free if gpu[:depth] == place]
                if len(inside) >= g:
                    self.record("machine", g, waited / self.lease_s)
                    return inside[:g]
        rack_wait, nw_wait = self.timers(g) if self.tuned else (self.rack_wait, self.nw_wait)
        if waited >= self.lease_s * rack_wait or g > self.gpm:
            for rack in range(self.racks):
                inside = [gpu for gpu in free if gpu[0] == rack]
                if len(inside) >= g:
                    self.record("rack", g, waited / self.lease_s)
                    return inside[:g]
        if waited >= self.lease_s * nw_wait or g > self.gpr:
            return free[:g]
        return []

    def place_by_skew(self, job: Job, free: list[Gpu]) -> list[Gpu]:
        g, low_skew = job.gpus, job.model in ("ResNet50", "ResNet18", "BERT")
        for place in self.machines(free):
            inside = [gpu for gpu in free if gpu[:2] == place]
            if len(inside) >= g:
                return inside[:g]
        if low_skew or len(free) >= self.gpm:
            for rack in range(self.racks):
                inside = [gpu for gpu in free if gpu[0] == rack]
                if len(inside) >= g:
                    return inside[:g]
        return free[:g] if low_skew or g > self.gpr else []

    def place_by_affinity(self, job: Job, free: list[Gpu]) -> list[Gpu]:
        g = job.gpus
        if g > self.gpm:
            if job.waits:
                return self.scatter(g, free)
            inside = ([gpu for gpu in free if gpu[0] == rack] for rack in range(self.racks))
            return next((gpus[:g] for gpus in inside if len(gpus) >= g), [])
        rooms = [[gpu for gpu in free if gpu[:2] == place] for place in self.machines(free)]
        hosts = [lambda of: of == g, lambda of: of is None, lambda of: True]
        for hosts_it in hosts:
            fit = [gpus for gpus in rooms if len(gpus) >= g and hosts_it(self.affinity.get(gpus[0][1]))]
            if fit:
                gpus = max(fit, key=len)
                self.affinity.setdefault(gpus[0][1], g)
                return gpus[:g]
        return free[:g] if job.waits else []

    def scatter(self, g: int, free: list[Gpu]) -> list[Gpu]:
        """Draw a random set of GPUs: each is taken with its probability given those taken so far."""
        gpus: list[Gpu] = []
        for i, gpu in enumerate(free):
            if self.draw() % (len(free) - i) < g - len(gpus):
                gpus.append(gpu)
        return gpus

    def machines(self, free: list[Gpu]) -> Sequence[tuple[int, ...]]:
        if self.sort is not None:
            return self.sort(sorted({gpu[:2] for gpu in free}))
        return self.machine_order or sorted({gpu[:2] for gpu in self.all})

    def slots(self, free: list[Gpu]) -> Sequence[tuple[int, ...]]:
        if self.sort is not None and self.slots_per_machine > 1:
            return self.sort(sorted({gpu[:3] for gpu in free}))
        if self.sort is not None:  # one slot a machine
            return []
        return self.slot_order or sorted({gpu[:3] for gpu in self.all})

    def record(self, which: str, g: int, wait: float) -> None:
        if wait < 1.0:
            return
        history = self.histories[which].setdefault(g, [])
        history.append((self.now, wait))
        i = 0
        while i < len(history):
            if history[i][0] < self.now - self.lease_s * self.hist:
                del history[i]
                i += self.prune
            else:
                i += 1

    def timers(self, g: int) -> tuple[float, float]:
        machine = [wait for _, wait in self.histories["machine"].get(g, [])]
        rack = [wait for _, wait in self.histories["rack"].get(g, [])]
        return (
            min(math.ceil(0.8 * self.hist), max(6, math.ceil(mean_sigma(machine)))),
            min(self.hist, max(12, math.ceil(mean_sigma(rack)))),
        )


def mean_sigma(waits: Sequence[float]) -> float:
    """Mean + 2 population standard deviations; 1 if there are no waits or all are 0."""
    if not waits or sum(waits) == 0:
        return 1.0
    mean = sum(waits) / len(waits)
    return mean + 2.0 * math.sqrt(sum((wait - mean) ** 2 for wait in waits) / len(waits))


def dimensions(gpus: Sequence[Gpu]) -> tuple[int, int, int, int]:
    """GPUs in the dimensions gpu, slot, machine, rack of a placement; 1 = absent."""
    n = len(gpus)
    racks, machines, slots = (len({gpu[:depth] for gpu in gpus}) for depth in (1, 2, 3))
    shape = [1, 1, 1, 1]
    if racks > 1:
        if n % racks:
            shape[3] = n
            return tuple(shape)
        shape[3] = racks
        n //= racks
    if machines > 1:
        if n % machines or n == machines:
            shape[2] = n
            return tuple(shape)
        shape[2] = machines
        n //= machines
    if n % slots or n == slots:
        shape[1] = n
        return tuple(shape)
    shape[1] = slots
    shape[0] = n // slots
    return tuple(shape)


def by_number(places: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """An order that depends on the number of places."""
    turned = places[::-1] if len(places) % 2 else places
    cut = len(places) // 3
    return turned[cut:] + turned[:cut]
