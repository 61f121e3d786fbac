"""A second simulator of Dally and Tiresias as in the authors' simulator of Dally, in plain Python, every step an event.

It was written from the project's specification of the published code (aakash-sharma/cluster-sim, commit 4cd660e, 2024)
without sight of ``gpusched_env.baselines.dally`` or its documentation. It always has the quirks Q2 to Q6 of that
specification; ``rebid`` adds Q1. Jobs never form groups (Q7). What the specification leaves open was read in stored
revisions of the authors' Java near that commit, and in Commons Collections 4, whose maps they use:

* ClusterEventQueue: the idle retry is queued when the queue is empty after any event. All arrivals are in the queue
  from the start, so that there is no retry before the last arrival.
* JobStatistics, JobStatisticEvent: the first event is 1 s after the first arrival, each next one 0.1 leases after the
  last, until one finds no other event. It has the priority of arrivals. It never comes back.
* InterJobScheduler: jobs that won GPUs start in the order of their arrival, whatever the order of their bids. A job
  bids when it has no GPUs for its next step: a waiting job, and with Q1 also one in the middle of a step.
* IntraJobScheduler: the look-ahead computes ((seconds * K) / e) / g, the length of a step is (seconds / e) * K.
  A gang of one GPU has e = 1. GPUs won in the middle of a step (Q1) count at its end only if the lease has expired.
  At the end of a job the offer comes 1 s later for each GPU that was leased to it, leaked ones included.
* TiresiasIntraJobScheduler: attained service grows by g * (seconds / e) * K.
* MultiKeyMap, AbstractHashedMap: the order of slots and machines, see :func:`java_order`.

Choices that are in neither: StuckError is raised where the Java retries for ever, as when Q1 has leaked every GPU or a
gang is larger than the cluster. Times are floats [s]. A timer may be ``inf``; a lease may not.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

Gpu = tuple[int, int, int, int]  # rack, machine of the rack, slot of the machine, GPU of the slot
Key = tuple[int, ...]
Shape = tuple[int, int, int, int]  # sizes of the dimensions gpu, slot, machine, rack; 1 = absent

ARRIVAL, END, START, OFFER = range(4)  # order of events at the same time; ClusterEvent.EventType
STATISTICS = ARRIVAL
LOW_SKEW = ("ResNet50", "ResNet18", "BERT")
RACK_FLOOR, NETWORK_FLOOR, RACK_CAP, SIGMAS = 6, 12, 0.8, 2
SECONDS_PER_GPU, IDLE_RETRY_S, STATISTICS_LEASES = 1.0, 60.0, 0.1


class StuckError(Exception):
    """No job runs, no job can start, and no timer will change that."""


@dataclass(frozen=True)
class Job:
    """``seconds`` of an iteration on one GPU; ``iterations`` are counted over all GPUs of the gang."""

    id: int
    arrival: float
    gpus: int
    iterations: int
    seconds: float
    model: str = "VGG"


@dataclass(frozen=True)
class Rules:
    """The cluster, and the arguments of the simulator. ``tuned`` replaces the two timers, which are in leases."""

    racks: int = 1
    machines: int = 1
    slots: int = 1
    gpus: int = 1
    granularity: int = 1
    lease: float = 3600.0
    rack_wait: float = 1.0
    network_wait: float = 2.0
    tuned: bool = False
    history: int = 0
    rebid: bool = False
    order: str = "asc"
    policy: str = "dally"

    @property
    def per_machine(self) -> int:
        return self.slots * self.gpus

    @property
    def per_rack(self) -> int:
        return self.per_machine * self.machines


@dataclass(eq=False)
class State:
    """A job in the system; ``held`` are the GPUs of its step, ``won`` those for its next one."""

    job: Job
    last: float
    remaining: int
    queue: float = 0.0
    run: float = 0.0
    computed: float = 0.0
    priority: float = 0.0
    pace: float = math.nan
    start: float = math.nan
    end: float = math.nan
    waiting: bool = True
    held: list[Gpu] = field(default_factory=list)
    won: list[Gpu] = field(default_factory=list)


def dimensions(placement: Iterable[Gpu]) -> Shape:
    """Shape of a placement: a grid of equal parts, whatever the placement is (section 3.2)."""
    gpus = list(placement)
    racks, machines, slots = (len({gpu[:depth] for gpu in gpus}) for depth in (1, 2, 3))
    left = len(gpus)
    if racks > 1 and left % racks:
        return 1, 1, 1, left
    left //= racks
    if machines > 1 and (left % machines or left == machines):
        return 1, 1, left, racks
    left //= machines
    if left % slots or left == slots:
        return 1, left, machines, racks
    return left // slots, slots, machines, racks


def java_order(keys: Sequence[Key]) -> list[Key]:
    """Order in which a MultiKeyMap visits keys of small integers that were put in the given order.

    The buckets are visited from the last to the first. New entries come first in their bucket. A map that is three
    quarters full after a put doubles, and the entries move over in the order of a visit, again to the fronts.
    """
    buckets: list[list[Key]] = [[] for _ in range(16)]
    for count, key in enumerate(keys, 1):
        buckets[_mixed(key) % len(buckets)].insert(0, key)
        if count >= len(buckets) * 3 // 4:
            visited = [entry for bucket in reversed(buckets) for entry in bucket]
            buckets = [[] for _ in range(2 * len(buckets))]
            for entry in visited:
                buckets[_mixed(entry) % len(buckets)].insert(0, entry)
    return [entry for bucket in reversed(buckets) for entry in bucket]


def _mixed(key: Key) -> int:
    """``MultiKeyMap.hash``: the exclusive or of the integers, stirred, as an unsigned number of 32 bits."""
    word = 0xFFFFFFFF
    value = 0
    for part in key:
        value ^= part
    value = (value + ~(value << 9)) & word
    value ^= value >> 14
    value = (value + (value << 4)) & word
    return value ^ (value >> 10)


def spread(waits: Sequence[float]) -> float:
    """``stat`` of section 3.5, in leases."""
    total = 0.0
    for wait in waits:
        total += wait
    if total == 0:
        return 1.0
    mean = total / len(waits)
    squares = 0.0
    for wait in waits:
        squares += (wait - mean) * (wait - mean)
    return mean + SIGMAS * math.sqrt(squares / len(waits))


def tuned_timers(machine: Sequence[float], rack: Sequence[float], history: int) -> tuple[int, int]:
    """Rack timer and network timer of the tuner [leases], from the recorded waits for machines and for racks."""
    return (
        min(math.ceil(RACK_CAP * history), max(RACK_FLOOR, math.ceil(spread(machine)))),
        min(history, max(NETWORK_FLOOR, math.ceil(spread(rack)))),
    )


def record(waits: list[tuple[float, float]], now: float, wait: float, span: float) -> None:
    """Append a wait [leases] of at least one lease; forget old ones, but not the one after each forgotten one (Q5)."""
    if wait < 1:
        return
    waits.append((now, wait))
    i = 0
    while i < len(waits):
        if waits[i][0] < now - span:
            del waits[i]
        i += 1


class Simulator:
    """One run. ``efficiency(model, shape)`` is asked for gangs of at least two GPUs."""

    def __init__(self, rules: Rules, efficiency: Callable[[str, Shape], float]) -> None:
        self.rules = rules
        self.efficiency = efficiency
        self.all = [
            (rack, machine, slot, gpu)
            for rack in range(rules.racks)
            for machine in range(rules.machines)
            for slot in range(rules.slots)
            for gpu in range(rules.gpus)
        ]
        self.holder: dict[Gpu, State | None] = dict.fromkeys(self.all)
        self.lease_end: dict[Gpu, float] = {}
        self.now = 0.0
        self.events: list[tuple[float, int, int, Callable[[], None]]] = []
        self.queued = 0
        self.present: list[State] = []
        self.counted = False
        self.waits: dict[tuple[str, int], list[tuple[float, float]]] = {}
        self.visits: dict[tuple[Key, ...], list[Key]] = {}
        self.known: dict[tuple[str, tuple[Gpu, ...]], float] = {}
        self.grants: list[tuple[float, int, list[Gpu]]] = []  # time, job and GPUs of each start of a job

    def run(self, jobs: Sequence[Job]) -> dict[int, State]:
        """Play all jobs, in the order of their file; return their final states by id."""
        states = {}
        for job in jobs:
            if job.gpus > len(self.all):
                raise StuckError(f"job {job.id} wants {job.gpus} of {len(self.all)} GPUs")
            states[job.id] = state = State(job, job.arrival, job.iterations)
            self.push(job.arrival, ARRIVAL, partial(self.arrive, state))
        timers = (self.rules.rack_wait, self.rules.network_wait, self.rules.history)
        longest = self.rules.lease * max((timer for timer in timers if timer < math.inf), default=0.0)
        while self.events:
            self.now, rank, _, event = heapq.heappop(self.events)
            event()
            if not self.events and self.present:
                if rank == OFFER and self.now > max(state.last for state in self.present) + longest:
                    raise StuckError(f"{len(self.present)} jobs wait for ever at {self.now} s")
                self.push(self.now + IDLE_RETRY_S, OFFER, self.offer)
        return states

    def push(self, time: float, rank: int, event: Callable[[], None]) -> None:
        self.queued += 1
        heapq.heappush(self.events, (time, rank, self.queued, event))

    def pace(self, state: State, gpus: Sequence[Gpu]) -> float:
        if len(gpus) == 1:
            return 1.0
        key = state.job.model, tuple(gpus)
        if key not in self.known:
            self.known[key] = self.efficiency(state.job.model, dimensions(gpus))
        return self.known[key]

    def arrive(self, state: State) -> None:
        if not self.counted:
            self.counted = True
            self.push(self.now + 1, STATISTICS, self.count)
        if None in self.holder.values():
            self.push(self.now, OFFER, self.offer)
        self.present.append(state)

    def count(self) -> None:
        """The statistics, which matter only because they keep the queue from running empty (Q4)."""
        if self.events:
            self.push(self.now + self.rules.lease * STATISTICS_LEASES, STATISTICS, self.count)

    def offer(self) -> None:
        free = [gpu for gpu in self.all if self.holder[gpu] is None]
        bidders = [state for state in self.present if not state.won and (state.waiting or self.rules.rebid)]
        bidders.sort(key=lambda state: (state.priority, state.last, state.job.id))
        for state in bidders:
            if not free:
                break
            if state.job.gpus > len(free):
                continue
            state.won = self.place(state, free)
            for gpu in state.won:
                self.holder[gpu] = state
                self.lease_end[gpu] = self.now + self.rules.lease
                free.remove(gpu)
        for state in self.present:
            if state.waiting and state.won:
                state.waiting = False
                state.queue += self.now - state.last
                state.last = self.now
                if math.isnan(state.start):
                    state.start = self.now
                self.grants.append((self.now, state.job.id, state.won))
                self.push(self.now, START, partial(self.begin, state))

    def visited(self, free: Sequence[Gpu], depth: int) -> dict[Key, list[Gpu]]:
        """Free GPUs of each part of the cluster (depth 2 = machine, 3 = slot), in the order of a visit."""
        parts: dict[Key, list[Gpu]] = {}
        for gpu in free:
            parts.setdefault(gpu[:depth], []).append(gpu)
        if self.rules.order == "asc":
            return parts
        keys = tuple(parts)
        if keys not in self.visits:
            self.visits[keys] = java_order(keys)
        return {key: parts[key] for key in self.visits[keys]}

    def place(self, state: State, free: Sequence[Gpu]) -> list[Gpu]:
        demand = state.job.gpus
        place = self.place_tiresias if self.rules.policy == "tiresias" else self.place_dally
        return list(place(state, free))[:demand]

    def place_tiresias(self, state: State, free: Sequence[Gpu]) -> Sequence[Gpu]:
        demand, low = state.job.gpus, state.job.model in LOW_SKEW
        for part in self.visited(free, 2).values():
            if len(part) >= demand:
                return part
        if low or len(free) >= self.rules.per_machine:
            for part in racks(free):
                if len(part) >= demand:
                    return part
        return free if low or demand > self.rules.per_rack else []

    def place_dally(self, state: State, free: Sequence[Gpu]) -> Sequence[Gpu]:
        rules, demand = self.rules, state.job.gpus
        wait = self.now - state.last
        span = rules.lease * rules.history
        machine = self.waits.setdefault(("machine", demand), [])
        rack = self.waits.setdefault(("rack", demand), [])
        for depth in (3, 2):
            for part in self.visited(free, depth).values():
                if len(part) >= demand:
                    record(machine, self.now, wait / rules.lease, span)
                    return part
        rack_wait, network_wait = rules.rack_wait, rules.network_wait
        if rules.tuned:
            rack_wait, network_wait = tuned_timers([x for _, x in machine], [x for _, x in rack], rules.history)
        if wait >= rules.lease * rack_wait or demand > rules.per_machine:
            for part in racks(free):
                if len(part) >= demand:
                    record(rack, self.now, wait / rules.lease, span)
                    return part
        return free if wait >= rules.lease * network_wait or demand > rules.per_rack else []

    def begin(self, state: State) -> None:
        state.held, state.won = state.won, []
        state.pace = self.pace(state, state.held)
        self.push(self.now + state.job.seconds / state.pace * self.rules.granularity, END, partial(self.finish, state))

    def finish(self, state: State) -> None:
        job, steps, gang = state.job, self.rules.granularity, len(state.held)
        state.run += job.seconds / state.pace * steps
        state.computed += job.seconds * steps
        state.remaining = max(0, state.remaining - steps * gang)
        if self.rules.policy == "tiresias":
            state.priority += gang * (job.seconds / state.pace) * steps
        else:
            ideal = job.seconds * job.iterations / job.gpus
            state.priority = (1 - state.remaining / job.iterations) / (state.run / ideal)
        if state.remaining == 0:
            leased = [gpu for gpu in self.all if self.holder[gpu] is state]
            self.release(leased)
            self.push(self.now + SECONDS_PER_GPU * len(leased), OFFER, self.offer)
            self.present.remove(state)
            state.end = self.now
            return
        expired = self.now >= self.lease_end[state.held[0]]
        if expired:
            self.release(state.held)
            kept, pace = state.won, self.pace(state, state.won) if state.won else math.nan
        else:
            kept, pace = state.held, state.pace
        late = len(kept) > 0 and self.now + job.seconds * steps / pace / len(kept) > self.lease_end[kept[0]]
        if late:
            self.release(kept)
        if expired or late:
            self.push(self.now + (SECONDS_PER_GPU * gang if expired else 0.0), OFFER, self.offer)  # Q3
            state.held, state.won, state.waiting, state.last = [], [], True, self.now
        else:  # GPUs won in the middle of the step stay leased and are forgotten (Q1)
            state.won = state.held
            self.push(self.now, START, partial(self.begin, state))

    def release(self, gpus: Iterable[Gpu]) -> None:
        for gpu in gpus:
            self.holder[gpu] = None


def racks(free: Sequence[Gpu]) -> list[list[Gpu]]:
    """Free GPUs of each rack, racks ascending: the order of a HashMap of few small integers."""
    parts: dict[int, list[Gpu]] = {}
    for gpu in free:
        parts.setdefault(gpu[0], []).append(gpu)
    return list(parts.values())
