"""Fair-share factors of Slurm: Fair Tree and the classic algorithm, from the usage of the leaves of a tree of tenants.

All functions take the tree as ``parent`` (int32 [Q], parents before children, -1 = the root, which is row 0) and
``weight`` (float64 [Q], shares relative to siblings). The users are the leaves.
"""

from __future__ import annotations

import numpy as np

from gpusched_env.portable import arrays, elementary
from gpusched_env.portable.keys import rounded_keys

Array = np.ndarray


def decay(elapsed_s: float, half_life_s: float) -> float:
    """Return the factor by which usage shrinks in ``elapsed_s`` [s]; a half-life of 0 means that it never does."""
    return 1.0 if half_life_s == 0.0 else elementary.power(0.5, elapsed_s / half_life_s)


class FairTree:
    """A tree of tenants, prepared for many computations of the fair-share factors.

    Parameters
    ----------
    parent, weight : the tree, see above
    """

    def __init__(self, parent: Array, weight: Array) -> None:
        rows = len(parent)
        depth = np.zeros(rows, np.int64)
        for row in range(1, rows):
            depth[row] = depth[parent[row]] + 1
        self._parent = np.asarray(parent, np.int64)
        self._levels = [np.flatnonzero(depth == level) for level in range(1, int(depth.max()) + 1)]
        self.leaves = np.flatnonzero(np.bincount(self._parent[1:], minlength=rows) == 0)
        above = np.bincount(self._parent[1:], weights=weight[1:], minlength=rows)
        self.share = np.ones(rows)
        self.share[1:] = np.divide(
            weight[1:], above[self._parent[1:]], out=np.zeros(rows - 1), where=above[self._parent[1:]] > 0
        )
        self._path = self._paths(depth)

    def _paths(self, depth: Array) -> Array:
        """int64 [leaves, levels]: the row on each level of the path to each leaf; 0 = the leaf lies higher up."""
        path = np.zeros((len(self.leaves), max(len(self._levels), 1)), np.int64)
        at = self.leaves.copy()
        while (below := at > 0).any():
            path[np.flatnonzero(below), depth[at[below]] - 1] = at[below]
            at = np.where(below, self._parent[at], 0)
        return path

    def totals(self, usage: Array) -> Array:
        """float64 [Q]: usage of each subtree, from the usage of the leaves."""
        total = np.zeros(len(self._parent))
        total[self.leaves] = usage[self.leaves]
        for level in self._levels[::-1]:
            np.add.at(total, self._parent[level], total[level])
        return total

    def ranked(self, usage: Array) -> Array:
        """Return the factors of Fair Tree: rank / number of leaves, by the level factors along their paths.

        The level factor of a node is its part of the shares of its siblings / its part of their usage; infinite without
        usage. Accounts with equal factors merge their children; a leaf equal to an account ranks with its best leaf.
        Leaves that are equal share a rank, and the next rank is lower by their number.
        """
        total = self.totals(usage)
        above = total[self._parent]
        above[0] = total[0]
        used = np.divide(total, above, out=np.zeros(len(total)), where=above > 0)
        level = np.divide(self.share, used, out=np.full(len(total), np.inf), where=used > 0)
        level = np.where(self.share > 0, rounded_keys(level), 0.0)
        keys = level[self._path]
        order = np.lexsort(self._sort_keys(keys))
        count = len(order)
        ends = self._path[order] == 0
        same = (keys[order][1:] == keys[order][:-1]) | ends[1:] | ends[:-1]
        begins = np.concatenate([[True], ~same.all(axis=1)])
        first = np.maximum.accumulate(np.where(begins, np.arange(count), 0))
        factor = np.zeros(len(total))
        factor[self.leaves[order]] = (count - first) / count
        shared = (self.share[self._path] > 0).all(axis=1)
        factor[self.leaves[~shared]] = 0.0
        return factor

    def _sort_keys(self, keys: Array) -> tuple[Array, ...]:
        """Return the keys of a sort by path, the last one first; a leaf comes before accounts that are equal to it."""
        by_level = [(self._path[:, i] > 0, -keys[:, i]) for i in range(keys.shape[1])]
        return tuple(key for pair in by_level for key in pair)[::-1]

    def classic(self, usage: Array, damping: float = 1.0) -> Array:
        """Return the factors of the classic algorithm: F = 2^(-UE / S / damping); 0.5 = usage as large as the share.

        S is the product of the parts of shares along the path. UE is the effective usage: under the root the part UA of
        the usage of all; deeper UA + (UE of the parent - UA) x part of the shares.
        """
        total = self.totals(usage)
        actual = total / total[0] if total[0] > 0 else np.zeros(len(total))
        effective, share = actual.copy(), self.share.copy()
        for number, level in enumerate(self._levels):
            share[level] = self.share[level] * share[self._parent[level]]
            if number > 0:
                effective[level] += (effective[self._parent[level]] - actual[level]) * self.share[level]
        owns = share > 0
        ratio = np.divide(effective, share, out=np.zeros(len(total)), where=owns)
        return np.where(owns, arrays.power(0.5, ratio / damping), 0.0)
