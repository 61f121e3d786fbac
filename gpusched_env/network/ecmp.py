"""Hashed path choice (ECMP): a hash determines which of several equal links an edge of a gang takes."""

from __future__ import annotations

_LOW_32 = 0xFFFFFFFF


def path_hash(seed: int, job: int, start_index: int, edge_index: int) -> int:
    """Return a hash from 0 to 2**32-1; the edge takes the link number ``path_hash(...) % links``.

    An edge keeps its link while the job keeps its placement. A job that restarts gets new links, because
    ``start_index`` changes. The hash must never change, because results depend on it.

    Each word is mixed in by one step of a 32-bit integer mixer (splitmix32). Its multipliers are below 2**31, so no
    product overflows a signed 64-bit integer: Python, NumPy and compiled code (int64 arguments) give the same result.
    The seed is below 2**63, the other arguments below 2**32.
    """
    h = 0x2545F491
    for word in (seed, seed >> 32, job, start_index, edge_index):
        h = h ^ (word & _LOW_32)
        h = ((h ^ (h >> 16)) * 0x21F0AAAD) & _LOW_32
        h = ((h ^ (h >> 15)) * 0x735A2D97) & _LOW_32
        h = ((h ^ (h >> 15)) + 0x9E3779B9) & _LOW_32
    return h
