"""The gangs that pods form: the pods of one owner, or of one group, run as one job."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, compress, repeat
from typing import Final

import msgspec
import numpy as np

from gpusched_env.problem.workload import MAX_NODES, MIN_NODES
from gpusched_env.traces.kubernetes.pods import ENDED, Pod, PodGroup, Words
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.texts import PIECE, Texts

Array = np.ndarray
FURTHER: Final = "further pod of a job, which is one job together with its first pod"
REPLACED: Final = "jobs with pods that replaced others; the gang is the largest number of GPUs at one time"
UNEQUAL: Final = "jobs whose pods have unequal numbers of GPUs: nodes ignored"
BESIDES: Final = "jobs that hold, besides their whole GPUs, {}"
NEVER_RAN: Final = "ended before a container ran"
DIGEST: Final = 16  # [byte] two different jobs have equal digests with a probability below 1e-24 in a log of 1e7 pods


class Gang(msgspec.Struct, gc=False):
    """A job; times are in seconds since 1970, inf = not yet."""

    name: str  # namespace/name, or KIND/namespace/name if jobs of several kinds have the name
    group: int  # number of the object that is its PodGroup; 0 = not in the file
    group_queue: str
    group_arrival_s: float  # creation of the PodGroup
    pods: list[int]  # numbers of the objects that are its pods
    first: Words  # texts of the first pod
    gpu_types: str  # joined by |
    status: str  # Failed if a pod failed, else the phase of the last one
    priority: int
    arrival_s: float  # creation of the first pod
    start_s: float  # start of the first pod that holds GPUs
    end_s: float  # end of the last pod that has started
    gpus: int  # largest number of GPUs that its pods hold at one time [GPU]
    requested: int  # GPUs of all pods [GPU]
    parts: int = 0  # pods at that time, if each has as many GPUs; 0 = they differ
    part: str = ""  # what a pod requests of GPUs besides whole ones; "" = nothing


class Gangs:
    """The pods and PodGroups of a file, in columns, because the pods of a job may be anywhere in it."""

    def __init__(self) -> None:
        self._jobs = Texts()
        self._digests = bytearray()
        self._numbers = array("i")
        self._words = array("i")
        self._arrivals, self._starts, self._ends = array("d"), array("d"), array("d")
        self._gpus = array("i")
        self._priorities = array("i")
        self._groups = bytearray(), array("i"), array("i"), array("d")  # digests, numbers, queues, arrivals
        self._known: dict[Words, int] = {}
        self._queues: dict[str, int] = {}
        self._kinds: set[str] = set()
        self._newest: dict[str, tuple[tuple[bool, float], int]] = {}  # pod -> its newest record, if exports are joined
        self.replaced: set[int] = set()  # numbers of the objects of which a newer export tells again

    def add(self, place: Place, number: int, pod: Pod, joined: bool = False) -> None:
        """Add a pod, the object of this number; of several exports, which are ``joined``, its newest record counts."""
        if joined:
            identity = pod.uid or pod.name
            age = pod.age
            newest = self._newest.get(identity, (age, 0))
            if newest[1]:
                self.replaced.add(number if newest[0] > age else newest[1])
            self._newest[identity] = max(newest, (age, number))
        self._jobs.append(place, "name of the job", pod.job)
        self._digests += _digest(f"{pod.job} {pod.job_uid}".rstrip())
        self._kinds.add(pod.job[: pod.job.find("/")])
        self._numbers.append(number)
        self._words.append(self._known.setdefault(pod.words, len(self._known)))
        for column, time_s in zip((self._arrivals, self._starts, self._ends), pod.times_s, strict=True):
            column.append(time_s)
        self._gpus.append(pod.gpus)
        self._priorities.append(pod.priority)

    def add_group(self, number: int, group: PodGroup) -> None:
        """Add a PodGroup, which is an object of this number."""
        digests, numbers, queues, arrivals = self._groups
        digests += _digest(group.job)
        numbers.append(number)
        queues.append(self._queues.setdefault(group.queue, len(self._queues)))
        arrivals.append(group.arrival_s)

    def __iter__(self) -> Iterator[Gang]:
        """Yield the jobs in the order of their first pods, then PodGroups without pods; the digests are forgotten."""
        pods = len(self._numbers)
        order, begins = self._sorted()
        ends = np.append(begins[1:], np.intc(len(order)))
        firsts = order[begins]
        by_first = np.argsort(firsts, kind="stable").astype(np.intc)
        is_first = np.zeros(len(order), bool)
        is_first[firsts] = True
        del firsts
        words, queues = list(self._known), list(self._queues)
        shared = self._shared_names(is_first[:pods]) if len(self._kinds) > 1 else set()
        jobs = chain(compress(self._jobs, is_first[:pods]), repeat("", int(is_first[pods:].sum())))
        for job, begin, end in zip(jobs, _items(begins, by_first), _items(ends, by_first), strict=True):
            members = order[begin:end].tolist()
            group, queue, arrival_s = 0, "", math.inf
            if members[-1] >= pods:
                i = members.pop() - pods
                group, queue, arrival_s = self._groups[1][i], queues[self._groups[2][i]], self._groups[3][i]
            if self.replaced:
                members = [i for i in members if self._numbers[i] not in self.replaced]
            name = job[job.find("/") + 1 :]
            yield self._gang(job if name in shared else name, words, members, group, queue, arrival_s)

    def _sorted(self) -> tuple[Array, Array]:
        """Return pods and PodGroups job by job, in a job as in the file but PodGroups last; and where jobs begin."""
        self._digests += self._groups[0]
        self._groups[0].clear()
        high, low = np.frombuffer(self._digests, np.int64).reshape(-1, 2).T
        order = np.lexsort([low, high]).astype(np.intc)  # stable
        changes = np.diff(high[order]) != 0
        changes |= np.diff(low[order]) != 0
        del high, low
        self._digests = bytearray()
        return order, np.flatnonzero(np.concatenate([[True] * (len(order) > 0), changes])).astype(np.intc)

    def _shared_names(self, is_first: Array) -> set[str]:
        """Return the names that jobs of several kinds have; only names with equal hashes are compared."""

        def names() -> Iterator[str]:
            return (job[job.find("/") + 1 :] for job in compress(self._jobs, is_first))

        hashes = np.fromiter(map(hash, names()), np.int64)
        ordered = np.sort(hashes)
        again = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(again):
            return set()
        counts = Counter(compress(names(), np.isin(hashes, again)))
        return {name for name, count in counts.items() if count > 1}

    def _gang(
        self, name: str, words: list[Words], members: list[int], group: int, queue: str, group_arrival_s: float
    ) -> Gang:
        """Return the job of these pods."""
        if not members:
            nothing = Words("", "", "", "", "")
            return Gang(name, group, queue, group_arrival_s, [], nothing, "", "", 0, math.inf, math.inf, math.inf, 0, 0)
        i = members[0]
        first = words[self._words[i]]
        if len(members) == 1:
            gpus, start_s = self._gpus[i], self._starts[i]
            return Gang(
                name, group, queue, group_arrival_s, [self._numbers[i]], first, first.gpu_type, first.phase,
                self._priorities[i], self._arrivals[i], start_s, self._ends[i] if start_s < math.inf else math.inf,
                gpus, gpus, 1, first.part,
            )  # fmt: skip
        holds = [i for i in members if self._gpus[i]] or members
        types = dict.fromkeys(kind for i in holds if (kind := words[self._words[i]].gpu_type))
        ran = [i for i in members if self._starts[i] < math.inf] or members
        phases = [words[self._words[i]].phase for i in ran]
        gpus = most_at_once((self._starts[i], self._ends[i], self._gpus[i]) for i in holds)
        return Gang(
            name, group, queue, group_arrival_s, [self._numbers[i] for i in members], first, "|".join(types),
            "Failed" if "Failed" in phases else phases[-1], self._priorities[i],
            min(self._arrivals[i] for i in members),
            min(self._starts[i] for i in holds),
            max((self._ends[i] for i in holds if self._starts[i] < math.inf), default=math.inf),
            gpus,
            sum(self._gpus[i] for i in members),
            parts_of(gpus, (self._gpus[i] for i in holds)),
            next((part for i in members if (part := words[self._words[i]].part)), ""),
        )  # fmt: skip


def _items(values: Array, order: Array) -> Iterator[int]:
    """Yield the values in this order, as numbers of Python; few at a time, because they take more memory."""
    for i in range(0, len(order), PIECE):
        yield from values[order[i : i + PIECE]].tolist()


def _digest(job: str) -> bytes:
    return blake2b(job.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


def add_gang(jobs: JobColumns, gang: Gang, arrival_s: float, queue: str, remark: str = "") -> None:
    """Add the job of a gang with a remark, or drop it with a reason; its further pods are dropped."""
    place = Place(jobs.report.path, gang.pods[0], jobs.report.unit)
    for number in gang.pods[1:]:
        jobs.drop(Place(place.path, number, place.unit), FURTHER)
    with skippable:
        reason = unusable(arrival_s, gang.start_s, gang.end_s)
        if reason:
            jobs.drop(place, NEVER_RAN if gang.start_s == math.inf and gang.status in ENDED else reason)
            return
        if gang.part and not gang.gpus:
            jobs.drop(place, gang.part)
            return
        if gang.end_s > gang.start_s and gang.gpus:
            told = {
                remark: remark,
                **dict.fromkeys(gang.first.remarks, True),
                REPLACED: gang.gpus < gang.requested,
                UNEQUAL: not gang.parts,
            }
            told[BESIDES.format(gang.part)] = gang.part
            for one in filter(told.get, told):
                jobs.note(place, one)
        jobs.add(
            place,
            arrival_s,
            gang.gpus,
            gang.end_s - gang.start_s,
            *(gang.name, gang.first.namespace, queue, gang.gpu_types, gang.status),
            job_id=place.number - 1,
            priority=gang.priority,
            wait_s=gang.start_s - arrival_s,
            **{MIN_NODES: min(gang.parts, 1), MAX_NODES: gang.parts},
        )


def unusable(arrival_s: float, start_s: float, end_s: float) -> str:
    """Return why there is no job with these times, inf = unknown; "" = it is one."""
    if arrival_s == math.inf:
        return "no submission time"
    if start_s == math.inf:
        return "never started"
    if end_s == math.inf:
        return "still running at the end of the log"
    if end_s < start_s:
        return "ended before it started"
    return "started before it was submitted" if start_s < arrival_s else ""


def parts_of(gpus: int, of_pods: Iterable[int]) -> int:
    """Return the number of pods that hold ``gpus`` GPUs; 0 = the pods with GPUs have different numbers of them."""
    each = {one for one in of_pods if one}
    return gpus // min(each) if len(each) == 1 and gpus % min(each) == 0 else 0


def most_at_once(holds: Iterable[tuple[float, float, int]]) -> int:
    """Return the largest number of GPUs held at one time, of (start [s], end [s], GPUs); an end frees GPUs first."""
    changes: list[tuple[float, int]] = []
    for start_s, end_s, gpus in holds:
        if start_s < math.inf:
            changes += [(start_s, gpus), (max(end_s, start_s), -gpus)]
    most = held = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most
