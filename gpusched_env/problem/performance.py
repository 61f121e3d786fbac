"""The rate model: the time of an iteration on a placement, computed from its compute and its communication time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.network import Network, Topology, collectives_of, communication_s, isolated_communication_s
from gpusched_env.network.plans import nearest_nodes, planned_s
from gpusched_env.portable import arrays
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, TIERS, Cluster
from gpusched_env.problem.workload import Profiles, Workload


def overlapped(compute_s: np.ndarray, communication_s: np.ndarray, overlap: np.ndarray) -> np.ndarray:
    """Return the p-norm of compute and communication time [s], with p = ``overlap`` (Pollux, OSDI 2021).

    p = 1 adds the two times (no overlap); p = inf takes the longer one (full overlap).
    """
    longer = np.maximum(compute_s, communication_s)
    ratio = np.minimum(compute_s, communication_s) / longer
    with np.errstate(divide="ignore"):
        norm = longer * arrays.power(1.0 + arrays.power(ratio, overlap), 1.0 / overlap)
    return np.where(np.isinf(overlap), longer, norm)


def job_classes(
    workload: Workload, group: np.ndarray | None = None, further: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Group the jobs with the same profile and the same gang size into classes, so that their rates are stored once.

    Parameters
    ----------
    group : int64 [J + O], group of each job, and of each option of ``workload.sizes`` or each of ``further``; different
        groups have different classes. None = there is one group
    further : int32 [O], rows of jobs that have another group as well; None = there are none

    Returns
    -------
    classes : int64 [C, 2], profile row and gang size of each class
    of_job : int32 [J], class of each job at the size that it requests
    of_option : int32 [O], class of each option of ``workload.sizes``, or of each of ``further``; else empty
    group_of : int64 [C], group of each class
    """
    jobs, sizes = workload.jobs, workload.sizes
    numbers = _class_numbers(jobs["profile"].astype(np.int64), jobs["gpus"])
    if sizes is not None:
        options = _class_numbers(sizes.options["profile"].astype(np.int64), sizes.options["gpus"])
        numbers = np.concatenate([numbers, options])
    if further is not None:
        numbers = np.concatenate([numbers, numbers[further]])
    found, of_each = np.unique(numbers, return_inverse=True)  # numpy sorts numbers much faster than rows
    group_of = np.zeros(len(found), np.int64)
    if group is not None:
        groups = int(group.max()) + 1
        both, of_each = np.unique(of_each * groups + group, return_inverse=True)
        found, group_of = found[both // groups], both % groups
    of_each = of_each.astype(np.int32)
    return np.stack([found >> 32, found & 0xFFFF_FFFF], axis=1), of_each[: len(jobs)], of_each[len(jobs) :], group_of


def _class_numbers(profile: np.ndarray, gang: np.ndarray) -> np.ndarray:
    """int64: one number for each pair of a profile row (int64) and a gang size, in the order of the pairs."""
    return (profile << 32) + gang


class Paces(NamedTuple):
    """Times of one iteration of each job class, by tier and GPU type; each array has the shape [C, tiers, T].

    If machines have slots, there is a fourth tier. Its times are those of the tier "machine", unless times depend on
    the shape of the placement. An element is the time of a gang whose GPUs are all of one type. In synchronous
    training, each iteration waits for the slowest GPU. So a gang on GPUs of several types takes the largest of the
    times of these types. If a class cannot run on a GPU type on some tier, its compute and iteration times for this
    type are infinite on all tiers.
    """

    iteration_s: np.ndarray  # float64 [s] of one iteration on an idle network
    compute_s: np.ndarray  # float64 [s] of compute in one iteration
    communication_s: np.ndarray  # float64 [s] of communication in one iteration
    measured: np.ndarray  # Boolean: the times are measurements of the profile on gangs of this size


def known_types(workload: Workload, cluster: Cluster) -> list[int]:
    """Return the column of each of the cluster's GPU types in the profiles' table of compute times."""
    profiles = workload.profiles
    missing = [name for name in cluster.gpu_types if name not in profiles.gpu_types]
    if missing:
        raise WorkloadError(
            f"workload {workload.name!r}: its profiles give no compute time for the cluster's GPU type {missing[0]!r}; "
            f"they know {', '.join(profiles.gpu_types)}; name such a type, as in --cluster 16x4@{profiles.gpu_types[0]}"
        )
    return [profiles.gpu_types.index(name) for name in cluster.gpu_types]


def refuse_unable(ideal_s: np.ndarray, classes: np.ndarray, workload: Workload, cluster: Cluster) -> None:
    """Raise an error if a job class can run on no placement of the empty cluster.

    Parameters
    ----------
    ideal_s : float64 [C], seconds of one iteration on the ideal placement; inf = the class can run on no placement
    classes : int64 [C, 2], profile row and gang size of each class
    """
    if np.isinf(ideal_s).any():
        profile, gang = classes[int(np.argmax(ideal_s))].tolist()
        raise WorkloadError(
            f"workload {workload.name!r}: {str(workload.profiles.rows['name'][profile])!r} on {gang} GPUs cannot run "
            f"on the cluster's GPU types ({', '.join(cluster.gpu_types)}), or the cluster has too few GPUs of a type "
            "that runs it; leave out these jobs, or add machines of such a type"
        )


def class_paces(
    classes: np.ndarray, workload: Workload, cluster: Cluster, network: Network, topology: Topology | None = None
) -> Paces:
    """Compute the times of one iteration of each job class.

    Parameters
    ----------
    classes : int64 [C, 2], profile row and gang size of each class
    topology : the links of the network. If given, the times on a tier are those of a placement on the smallest number
        of machines that can hold the gang
    """
    profiles, types = workload.profiles, known_types(workload, cluster)
    rows = profiles.rows[classes[:, 0]]
    shape = (len(classes), len(TIERS), len(types))
    compute = np.broadcast_to(profiles.compute_s[classes[:, 0]][:, None, types], shape).copy()
    if "tiers" in (network.model, network.contention.model):
        communication = (
            np.where(np.isinf(compute), 0.0, compute)
            * (np.asarray(network.tier_slowdown) - 1.0)[:, None]
            * (classes[:, 1] > 1)[:, None, None]
        )
    else:
        gangs = classes[:, 1], rows["gradient_bytes"]
        if topology is None:
            formula = communication_s(network, *gangs)
        else:
            kinds = _collectives(network, workload, classes)
            formula = isolated_communication_s(network, topology, cluster, *gangs, kinds)
        if network.contention.model == "budget":  # the extra time of this model already is the cost of several machines
            formula = np.repeat(formula[:, [MACHINE]], len(TIERS), axis=1)
        communication = np.broadcast_to(formula[:, :, None], shape).copy()
    measured = np.zeros(shape, bool)
    class_of = {(profile, gang): index for index, (profile, gang) in enumerate(classes.tolist())}
    # Inner tiers first: a row sets all tiers from its own outwards, and a row of an outer tier then overwrites these.
    for row in np.sort(profiles.measured, order="tier", kind="stable"):
        index = class_of.get((int(row["profile"]), int(row["gpus"])))
        if index is not None and row["gpu_type"] in types:
            place = (index, slice(int(row["tier"]), None), types.index(row["gpu_type"]))
            compute[place], communication[place] = row["compute_s"], row["communication_s"]
            measured[place] = True
    if len(profiles.plans):
        plans = profiles.plans_of(classes)
        # Times of gangs that train LLMs hold for the sizes of their plans only
        compute[np.isin(classes[:, 0], profiles.plans["profile"])[:, None, None] & ~measured] = np.inf
        _refuse_wide_groups(plans, workload, cluster, network.tp_machines)
        for index, tier in np.argwhere((plans["gpus"] > 1)[:, None] & (np.arange(len(TIERS)) > MACHINE)).tolist():
            if topology is not None:
                nodes = nearest_nodes(cluster, int(plans["gpus"][index]), tier)
                communication[index, tier] = planned_s(topology, plans[index], nodes)
    compute = np.where(np.isinf(compute).any(axis=1, keepdims=True), np.inf, compute)
    passes = profiles.passes[classes[:, 0]][:, None, None]
    iteration = overlapped(compute / passes, communication, rows["overlap"][:, None, None])
    earlier = np.where(passes > 1, compute, 0.0)
    iteration += earlier - earlier / passes  # the compute of all passes but the last; only the last one communicates
    of_tier = [*range(len(TIERS)), *[MACHINE] * (len(cluster.tiers) - len(TIERS))]
    return Paces(*(array[:, of_tier] for array in (iteration, compute, communication, measured)))


def _refuse_wide_groups(plans: np.ndarray, workload: Workload, cluster: Cluster, tp_machines: int) -> None:
    """Raise an error if a tensor-parallel group needs more than ``tp_machines`` machines."""
    most = tp_machines * int(cluster.nodes["gpus"].max())
    if (wide := plans["tp"] > most).any():
        plan = plans[int(np.argmax(wide))]
        raise WorkloadError(
            f"workload {workload.name!r}: {str(workload.profiles.rows['name'][plan['profile']])!r} on {plan['gpus']} "
            f"GPUs has tensor-parallel groups of {plan['tp']} GPUs, but {tp_machines} machines hold {most}; give it a "
            "plan with smaller groups, or raise network.tp_machines"
        )


def _collectives(network: Network, workload: Workload, classes: np.ndarray) -> list[str]:
    """Return the collective of each job class."""
    of_profile = collectives_of(network, workload.profiles.rows["name"].tolist())
    return [of_profile[profile] for profile in classes[:, 0].tolist()]


def ideal_iteration_seconds(
    gangs: np.ndarray, iteration_s: np.ndarray, cluster: Cluster, room: np.ndarray | None = None
) -> np.ndarray:
    """float64 [C]: seconds of one iteration of each job class on the fastest placement in the empty cluster.

    Consider each GPU type and tier. Allow GPUs of this type and of all types that are as fast or faster for the class.
    If one slot, machine or rack of the tier has enough of these GPUs, the time is that of the given type, because it is
    the slowest type allowed. The result is the smallest of these times.

    Parameters
    ----------
    gangs : int [C], gang size of each class
    iteration_s : float64 [C, tiers, T], see :class:`Paces`
    room : int [N] [GPU], what a gang of the classes may use of each node; None = all of it
    """
    gpus = cluster.nodes["gpus"] if room is None else room
    ideal = np.full(len(gangs), np.inf)
    types = cluster.nodes["gpu_type"]
    for tier, slowest in np.ndindex(iteration_s.shape[1:]):
        as_fast = iteration_s[:, tier, :] <= iteration_s[:, tier, slowest, None]
        for used in np.unique(as_fast, axis=0):
            classes = (as_fast == used).all(axis=1)
            sizes = np.where(used[types], gpus, 0)
            in_slots = np.where(cluster.slots > 1, np.minimum(sizes, cluster.slot_gpus), 0)
            in_racks = np.bincount(cluster.nodes["rack"], weights=sizes)
            groups = (sizes, in_racks, np.array([sizes.sum()]), in_slots)
            fitting = classes & (gangs <= groups[tier].max())
            if fitting.any():
                ideal[fitting] = np.minimum(ideal[fitting], iteration_s[fitting, tier, slowest])
    return ideal


class _Known(NamedTuple):
    profiles: Profiles
    topology: Topology | None
    row_of: dict[int, int]  # row in the arrays of each class, by its number
    paces: Paces
    ideal_s: np.ndarray


class ClassTable:
    """Times of the job classes of one scenario. Each class is computed when a draw first has it.

    The times of a class depend on its profile, its gang size, the cluster and the network, not on the other jobs. The
    table holds the classes of one Profiles object and one topology; others replace them.
    """

    def __init__(self, cluster: Cluster, network: Network) -> None:
        self.cluster, self.network = cluster, network
        self._known: _Known | None = None  # replaced as a whole, because several threads may draw

    def times(
        self, classes: np.ndarray, workload: Workload, topology: Topology | None = None
    ) -> tuple[Paces, np.ndarray]:
        """Return fresh arrays: :func:`class_paces` and :func:`ideal_iteration_seconds` of the classes."""
        known = self._known
        if known is not None and (known.profiles is not workload.profiles or known.topology is not topology):
            known = None
        numbers = _class_numbers(classes[:, 0], classes[:, 1]).tolist()
        if known is None or not known.row_of.keys() >= set(numbers):
            known = self._known = self._with(known, classes, workload, topology)
        rows = np.array([known.row_of[number] for number in numbers])
        return Paces(*(array[rows] for array in known.paces)), known.ideal_s[rows]

    def _with(self, known: _Known | None, classes: np.ndarray, workload: Workload, topology: Topology | None) -> _Known:
        """Return what is known and the classes that are new."""
        row_of = {} if known is None else dict(known.row_of)
        numbers, first = np.unique(_class_numbers(classes[:, 0], classes[:, 1]), return_index=True)
        is_new = [number not in row_of for number in numbers.tolist()]
        new = classes[first[is_new]]  # each once: classes of several groups may be alike
        for number in numbers[is_new].tolist():
            row_of[number] = len(row_of)
        paces = class_paces(new, workload, self.cluster, self.network, topology)
        ideal_s = ideal_iteration_seconds(new[:, 1], paces.iteration_s, self.cluster)
        if known is not None:
            paces = Paces(*map(np.concatenate, zip(known.paces, paces, strict=True)))
            ideal_s = np.concatenate([known.ideal_s, ideal_s])
        return _Known(workload.profiles, topology, row_of, paces, ideal_s)


def type_rates(
    gangs: np.ndarray, iteration_s: np.ndarray, cluster: Cluster, room: np.ndarray | None = None
) -> np.ndarray:
    """float64 [C, T]: iterations per second of each job class on GPUs of one type; 0 = the class cannot run there.

    The rate is that on the tightest tier on which the machines of this type can hold the gang.

    Parameters
    ----------
    gangs : int [C], gang size of each class
    iteration_s : float64 [C, tiers, T], see :class:`Paces`
    room : int [C, N] [GPU], what a gang of each class may use of each node; None = all of it
    """
    if room is not None:
        rates = np.zeros((len(gangs), len(cluster.gpu_types)))
        for gpus in np.unique(room, axis=0):
            alike = (room == gpus).all(axis=1)
            rates[alike] = _type_rates(gangs[alike], iteration_s[alike], cluster, gpus)
        return rates
    return _type_rates(gangs, iteration_s, cluster, cluster.nodes["gpus"])


def _type_rates(gangs: np.ndarray, iteration_s: np.ndarray, cluster: Cluster, gpus: np.ndarray) -> np.ndarray:
    """Return the rates of :func:`type_rates` if each node has this number of GPUs."""
    rates = np.zeros((len(gangs), len(cluster.gpu_types)))
    for column in range(len(cluster.gpu_types)):
        sizes = np.where(cluster.nodes["gpu_type"] == column, gpus, 0)
        in_racks = np.bincount(cluster.nodes["rack"], weights=sizes)
        for tier, most in ((NETWORK, sizes.sum()), (RACK, in_racks.max()), (MACHINE, sizes.max())):
            rates[:, column] = np.where(gangs <= most, 1.0 / iteration_s[:, tier, column], rates[:, column])
    return rates
