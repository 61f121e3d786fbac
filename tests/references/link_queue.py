"""Store-and-forward links with FIFO queues, after ASTRA-sim's analytical network: an independent reference.

astra-sim/astra-network-analytical, congestion_aware/network/Link.cpp (whole nanoseconds, FIFO, the arrival is scheduled
before the release), basic-topology/Ring.cpp (the way down only if it is shorter), and congestion_unaware/.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence

Route = Sequence[int]  # nodes, first to last


def ring_route(start: int, end: int, nodes: int) -> list[int]:
    """The shorter way round a ring; ties: upwards."""
    up = (end - start) % nodes
    step = 1 if up <= nodes - up else -1
    return [(start + step * i) % nodes for i in range(min(up, nodes - up) + 1)]


def unaware_ns(chunk_bytes: float, hops: int, GBps: float, latency_ns: float) -> int:
    """Time of one chunk without contention that is not stored on the way; 1 GB = 2**30 bytes."""
    return int(hops * latency_ns + chunk_bytes / (GBps * 2**30 / 1e9))


def finish_ns(chunk_bytes: float, routes: Sequence[Route], GBps: float, latency_ns: float) -> int:
    """Arrival of the last chunk if all chunks start at time 0 in this order, chunk i on ``routes[i]``.

    A link holds a chunk for int(size / rate) and delivers it int(latency + size / rate) after accepting it. Events at
    the same time are played in the order in which they were scheduled, the arrival before the release of the link.
    """
    transfer_ns = chunk_bytes / (GBps * 2**30 / 1e9)
    events: list[tuple[int, int, str, int, int]] = []  # time, sequence, what, chunk, hop
    sequence = itertools.count()
    busy: set[tuple[int, int]] = set()
    waiting: dict[tuple[int, int], deque[tuple[int, int]]] = {}

    def take(now: int, chunk: int, hop: int) -> None:
        busy.add((routes[chunk][hop], routes[chunk][hop + 1]))
        heapq.heappush(events, (now + int(latency_ns + transfer_ns), next(sequence), "arrive", chunk, hop))
        heapq.heappush(events, (now + int(transfer_ns), next(sequence), "release", chunk, hop))

    def send(now: int, chunk: int, hop: int) -> None:
        link = (routes[chunk][hop], routes[chunk][hop + 1])
        if link in busy:
            waiting.setdefault(link, deque()).append((chunk, hop))
        else:
            take(now, chunk, hop)

    for chunk in range(len(routes)):
        send(0, chunk, 0)
    last = 0
    while events:
        now, _, what, chunk, hop = heapq.heappop(events)
        link = (routes[chunk][hop], routes[chunk][hop + 1])
        if what == "release":
            busy.discard(link)
            if waiting.get(link):
                take(now, *waiting[link].popleft())
        elif hop + 2 < len(routes[chunk]):
            send(now, chunk, hop + 1)
        else:
            last = max(last, now)
    return last
