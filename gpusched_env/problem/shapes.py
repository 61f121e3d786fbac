"""Times of an iteration on every shape that a gang's placement can have in a cluster."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.network.dimensions import DIMENSIONS, dimensions, reachable_shapes, shape_key
from gpusched_env.problem.cluster import OUTWARDS, Cluster
from gpusched_env.problem.performance import Paces, known_types
from gpusched_env.problem.workload import Profiles, Workload

Shape = tuple[int, int, int, int]


class ShapePaces(NamedTuple):
    """Times of one iteration of each job class on each shape of its placements.

    C = number of job classes, S = maximum number of shapes of a class, T = number of GPU types.
    """

    keys: np.ndarray  # int64 [C, S], ascending, key of each shape (shape_key); -1 = padding
    iteration_s: np.ndarray  # float64 [C, S, T] [s] of one iteration
    compute_s: np.ndarray  # float64 [C, S, T] [s] of compute in one iteration
    communication_s: np.ndarray  # float64 [C, S, T] [s] of the communication that does not overlap with compute
    efficiency: np.ndarray  # float64 [C, S], compute_s / iteration_s

    def rows(self, job_class: np.ndarray, gang: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """int64 [P]: index of the shape of each of P placements along the axis S.

        Parameters
        ----------
        job_class, gang : int [P], job class and number of GPUs of each placement
        parts : int [3, P], number of racks, machines and slots that each placement uses (Cluster.used_parts)
        """
        seen = {}
        rows = np.zeros(len(gang), np.int64)
        for at, (kind, *used) in enumerate(zip(job_class.tolist(), gang.tolist(), *parts.tolist(), strict=True)):
            told = (kind, *used)
            if told not in seen:
                _, *outer = dimensions(*used)
                seen[told] = int(np.flatnonzero(self.keys[kind] == shape_key(*outer))[0])
            rows[at] = seen[told]
        return rows


def shape_paces(classes: np.ndarray, workload: Workload, cluster: Cluster) -> tuple[Paces, ShapePaces]:
    """Compute the times of one iteration of each job class on each shape, and on the fastest shape of each tier.

    An iteration takes compute time / efficiency. A gang may have no placement on some tier. The times on this tier are
    then those of the next outer tier on which the gang has a placement or, if there is no such tier, those of the next
    inner one.

    Parameters
    ----------
    classes : int64 [C, 2], profile row and gang size of each class
    """
    types = known_types(workload, cluster)
    told = {tuple(row[:-1]): row[-1] for row in workload.profiles.shaped.tolist()}
    reachable = {gang: reachable_shapes(cluster, gang) for gang in np.unique(classes[:, 1]).tolist()}
    most = max(map(len, reachable.values()))
    keys = np.full((len(classes), most), -1, np.int64)
    efficiency = np.ones((len(classes), most))
    tiers = len(cluster.tiers)
    best = np.zeros((len(classes), tiers))
    for c, (profile, gang) in enumerate(classes.tolist()):
        shapes = sorted(reachable[gang], key=lambda shape: shape_key(*shape[1:]))
        for s, shape in enumerate(shapes):
            keys[c, s] = shape_key(*shape[1:])
            if gang > 1:
                if (profile, *shape) not in told:
                    raise _missing(workload.profiles, profile, gang, shape)
                efficiency[c, s] = told[(profile, *shape)]
            for tier in reachable[gang][shape]:
                best[c, tier] = max(best[c, tier], efficiency[c, s])
        _fill(best[c])
    compute = workload.profiles.compute_s[classes[:, 0]][:, None, types]
    by_tier, by_shape = (compute / share[:, :, None] for share in (best, efficiency))
    plain = np.broadcast_to(compute, by_tier.shape)
    everywhere = np.broadcast_to(compute, by_shape.shape)
    hidden = np.where(np.isinf(compute), 0.0, compute)  # inf - inf would be NaN
    paces = Paces(by_tier, plain.copy(), hidden / best[:, :, None] - hidden, np.zeros(by_tier.shape, bool))
    exposed = hidden / efficiency[:, :, None] - hidden
    return paces, ShapePaces(keys, by_shape, everywhere.copy(), exposed, efficiency)


def _fill(best: np.ndarray) -> None:
    """Replace each 0, a tier without a placement, by the efficiency of the next outer tier, or else the next inner."""
    order = [tier for tier in OUTWARDS if tier < len(best)]
    for there, here in pairwise(reversed(order)):
        best[here] = best[here] or best[there]
    for there, here in pairwise(order):
        best[here] = best[here] or best[there]


def _missing(profiles: Profiles, profile: int, gang: int, shape: Shape) -> WorkloadError:
    name = str(profiles.rows["name"][profile])
    shown = ", ".join(f"{dimension} {gpus}" for dimension, gpus in zip(DIMENSIONS, shape, strict=True) if gpus > 1)
    return WorkloadError(
        f"network 'dimensions': the profile {name!r} has no efficiency for {gang} GPUs in the dimensions {shown}, "
        "which gangs of the workload can get on this cluster; use profiles that have it (--profiles dally, on "
        "machines of two slots of four GPUs), leave out such gangs (max_gpus), or choose another network model"
    )
