"""Hashed path choice (ECMP): which of several equal links an edge of a gang takes."""

from __future__ import annotations

_LOW_32 = 0xFFFFFFFF


def path_hash(seed: int, job: int, start_index: int, edge_index: int) -> int:
    """Hash to 0 .. 2**32-1; the link is ``path_hash(...) % links``. Results depend on this hash: never change it.

    An edge keeps its link while the job keeps its placement. ``start_index`` counts the starts of the job, so a restart
    gets a new link. One step of a 32-bit integer mixer (splitmix32) folds in each word. Its multipliers are below
    2**31, so no product overflows a signed 64-bit integer: Python integers, NumPy arrays and compiled code agree.

    Parameters
    ----------
    seed : 0 .. 2**63-1
    job, start_index, edge_index : 0 .. 2**32-1; compiled callers widen all four to int64
    """
    h = 0x2545F491
    for word in (seed, seed >> 32, job, start_index, edge_index):
        h = h ^ (word & _LOW_32)
        h = ((h ^ (h >> 16)) * 0x21F0AAAD) & _LOW_32
        h = ((h ^ (h >> 15)) * 0x735A2D97) & _LOW_32
        h = ((h ^ (h >> 15)) + 0x9E3779B9) & _LOW_32
    return h
