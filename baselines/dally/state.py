"""What a delay scheduler remembers: every array once."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.cluster import MACHINE, SLOT
from gpusched_env.core.handle import Handle, array
from gpusched_env.errors import SchedulerError
from gpusched_env.instance import Instance

STATISTICS: Final = ("mean_sigma", "mean", "p95", "max")
PRIORITIES: Final = ("nw", "gpu-time", "arrival", "first-start")
POLICIES: Final = ("dally", "tiresias", "gandiva")
# Axis of the histories and of the table of waits: what a wait was for, or which timer.
MACHINE_WAITS, RACK_WAITS = 0, 1  # histories: waits that ended on a machine, in a rack
RACK_TIMER, NETWORK_TIMER = 0, 1  # table of waits

RULES_DTYPE: Final = np.dtype(
    [
        # rules, fixed
        ("lease_s", "<f8"),  # [s] inf = none
        ("ckpt_per_gpu_s", "<f8"),  # [s] for each GPU freed until they are offered
        ("idle_retry_s", "<f8"),  # [s]
        ("hist", "<f8"),  # [leases] length of the histories
        ("cap_rack", "<f8"),  # share of hist
        ("floor_rack", "<f8"),  # [leases]
        ("floor_nw", "<f8"),  # [leases]
        ("k_sigma", "<f8"),
        ("min_sample", "<f8"),  # [leases] shorter waits are not recorded
        ("empty_value", "<f8"),  # [leases] statistic of an empty history
        ("step_iterations", "<f8"),  # iterations of a gang in a step; 0 = work flows
        ("stat", "<i4"),  # index into STATISTICS
        ("priority", "<i4"),  # index into PRIORITIES
        ("policy", "<i4"),  # index into POLICIES
        ("tuned", "<i4"),  # 1 = the waits follow from the histories
        ("exact", "<i4"),  # 1 = every decision point and every expiry is an offer
        ("best_fit", "<i4"),
        ("stacked", "<i4"),  # 1 = the network timer begins when the rack timer ends
        ("censored", "<i4"),  # 1 = waits for a tier that was given up are recorded too
        ("renew", "<i4"),  # 1 = a lease is renewed if nobody waits and no tier would be better
        ("rebid", "<i4"),  # quirk Q1
        ("look_ahead", "<i4"),  # quirk Q2
        ("alias", "<i4"),  # quirk Q3
        ("statistics", "<i4"),  # quirk Q4: 1 = statistics are still taken
        ("prune", "<i4"),  # quirk Q5
        ("wall", "<i4"),  # 1 = Nw divides by the seconds since arrival
        ("leased", "<i4"),  # 1 = gangs are started with a lease
        ("sorted", "<i4"),  # 1 = a function sorts the places before each look at them
        ("victims", "<i4"),  # 1 = waiting jobs may have others checkpointed
        ("victim_limit", "<i4"),  # so often each
        ("victim_margin", "<f8"),  # whose Nw is so much larger
        ("victim_held_s", "<f8"),  # [s] and who have held their GPUs for so long
        ("machine_gpus", "<i8"),  # [GPU] of the largest machine
        ("rack_gpus", "<i8"),  # [GPU] of the largest rack
        # where the run stands
        ("next_tune_s", "<f8"),  # [s] when Python wants to look at the timers; inf = never
        ("phase", "<i8"),
        ("seen", "<i8"),  # jobs that have arrived and are in the queue
        ("queued", "<i8"),  # entries in use of ``queue``
        ("held", "<i8"),  # entries in use of ``held``
        ("returned", "<i8"),  # gangs that have been seen to have given their GPUs back
        ("due", "<i8"),  # offers to be made now
        ("later", "<i8"),  # entries in use of ``offers``
        ("cursor", "<i8"),  # next entry of ``order``
        ("ordered", "<i8"),  # entries in use of ``order``
        ("granted_in", "<i8"),  # phase in which a job has just been started
        ("offered", "<i8"),  # 1 = there has been an offer at this decision point
        ("stopped", "<i8"),  # 1 = gangs have been stopped since GPUs were counted last
        ("retuned", "<i8"),  # 1 = a timer has changed in this offer
        ("unsorted", "<i8"),  # 1 = what is on offer has changed since the places were sorted
        ("free", "<i8"),  # [GPU] on offer
        ("free_before", "<i8"),  # [GPU] on offer after the latest decision
        ("most_in_slot", "<i8"),  # [GPU] on offer in one slot, at most
        ("most_in_machine", "<i8"),
        ("most_in_rack", "<i8"),
        ("idle", "<i8"),  # decision points in a row at which nothing runs
        ("verdicts", "<i8"),  # entries in use of ``verdicts``
        ("made", "<i8"),  # offers made to somebody
        # the decision that ``next_decision`` has found
        ("row", "<i8"),
        ("until_s", "<f8"),  # [s]
        ("marks", "<i4"),  # scratch: 1 = victims that are counted are let stop
    ]
)
TASK_DTYPE: Final = np.dtype(
    [
        ("id", "<i8"),
        ("iterations", "<f8"),  # of one GPU: N of the papers
        ("compute_s", "<f8"),  # [s] of an iteration without communication
        ("ideal_s", "<f8"),  # [s] N x compute_s / gang
        ("left", "<f8"),  # iterations of one GPU that are left at the latest release
        ("run_s", "<f8"),  # [s] running seconds up to the latest release
        ("service_gpu_s", "<f8"),  # [GPU s] the same, of all GPUs
        ("nw", "<f8"),  # Nw, frozen while it waits
        ("key", "<f8"),  # what it is ordered by, smaller first
        ("arrival_s", "<f8"),  # [s]
        ("last_s", "<f8"),  # [s] arrival, then the latest start, then the latest release
        ("lease_end_s", "<f8"),  # [s] when the lease ends
        ("step_s", "<f8"),  # [s] of a step where it runs
        ("victim_nw", "<f8"),  # Nw of a gang that may be checkpointed for another job; -1 = it may not
        ("won_step", "<i8"),  # quirk Q1: step in which it has won GPUs that it will not use; -1 = none
        ("steps", "<i8"),  # steps in this lease, as far as they are known
        ("gpus", "<i4"),  # [GPU]
        ("demand", "<i4"),  # row of the histories
        ("best_tier", "<i4"),  # tightest tier of the empty cluster; -1 = a slot
        ("early", "<i4"),  # 1 = the look-ahead ends its lease
        ("leaked", "<i4"),  # [GPU] that it has leased and does not use: quirk Q1, or kept until they are free
        ("low_skew", "<i4"),  # 1 = Tiresias' list of models that may be spread
        ("stops", "<i4"),  # 1 = it is to stop before its lease is over
        ("evicted", "<i4"),  # how often it has been checkpointed for another job
        ("inside", "<i4"),  # [GPU] that it holds in the place that is being looked at
        ("padding", "<i4"),
    ]
)
SAMPLE_DTYPE: Final = np.dtype([("time_s", "<f8"), ("wait", "<f8")])  # when, [leases]
VERDICT_DTYPE: Final = np.dtype(
    [
        ("time_s", "<f8"),  # [s]
        ("waited_s", "<f8"),  # [s] since it last held GPUs
        ("rack_wait_s", "<f8"),  # [s] its timers then
        ("network_wait_s", "<f8"),  # [s]
        ("job", "<i4"),  # row
        ("tier", "<i4"),  # of placing.py: 0 slot, 1 machine, 2 rack, 3 anywhere, 4 random; -1 = it has refused
    ]
)


class Delay(Handle):
    """The arrays of a delay scheduler for one run, which kernels take beside those of the simulation.

    Axes: jobs, gpus, slots, nodes, racks, nodes of the largest rack, demand classes, samples, queued offers.
    """

    rules = array(RULES_DTYPE)
    tasks = array(TASK_DTYPE, "jobs")
    queue = array(np.int32, "jobs")  # waiting jobs, best first
    order = array(np.int32, "jobs")  # jobs to which the current offer goes
    held = array(np.int32, "gpus")  # jobs that hold GPUs
    offers = array(np.float64, "offers")  # [s] when offers are due
    samples = array(SAMPLE_DTYPE, "demand_classes", "spreads", "samples")  # waits that ended on a machine, in a rack
    counts = array(np.int32, "demand_classes", "spreads")  # samples in use
    demands = array(np.int32, "gangs")  # demand class of each gang size
    waits_s = array(np.float64, "gangs", "timers")  # [s] wait for a rack, wait for the network, of each gang size
    factors = array(np.float64, "gangs", "timers")  # what the hand tuner's timers are multiplied by
    leaker = array(np.int32, "gpus")  # row of the job that has leased a GPU it does not use (yet); -1 = none; J more if
    # the end of that job's lease frees it (quirk Q1)
    gpu_slot = array(np.int32, "gpus")  # slot of each GPU
    slot_gpu = array(np.int32, "slots_and_end")  # first GPU of each slot
    slot_order = array(np.int32, "slots")  # slots as they are visited
    node_order = array(np.int32, "nodes")  # machines as they are visited
    on_offer = array(np.int32, "places")  # GPUs on offer in each slot, machine, rack
    affinity = array(np.int32, "machine_numbers")  # Gandiva: gang size that machines so numbered in their racks host
    verdicts = array(VERDICT_DTYPE, "verdicts")  # who took or refused what; none are kept if it is empty


def allocate_delay(instance: Instance) -> Delay:
    """Lay out the arrays for an instance; rules and orders are those of the defaults until they are filled in.

    Raises
    ------
    SchedulerError : a job cannot run on one of the cluster's GPU types: offers do not look at types
    """
    if np.isinf(instance.iteration_s).any():
        kind, _, column = np.argwhere(np.isinf(instance.iteration_s))[0].tolist()
        name = instance.workload.profiles.rows["name"][instance.classes[kind, 0]]
        raise SchedulerError(
            f"dally: {str(name)!r} on {instance.classes[kind, 1]} GPUs cannot run on "
            f"{instance.cluster.gpu_types[column]}, and offers do not look at GPU types; leave out such jobs, or "
            "take another scheduler"
        )
    cluster, jobs = instance.cluster, len(instance.workload)
    gpus, nodes, racks = cluster.gpus, len(cluster.nodes), len(cluster.racks)
    slots = len(slot_sizes(instance))
    classes = len(np.unique(instance.workload.jobs["gpus"]))
    return Delay(
        rules=np.zeros((), RULES_DTYPE),
        tasks=np.zeros(jobs, TASK_DTYPE),
        queue=np.zeros(jobs, np.int32),
        order=np.zeros(jobs, np.int32),
        held=np.zeros(gpus, np.int32),
        offers=np.zeros(2 * gpus + 64),
        samples=np.zeros((classes, 2, 64), SAMPLE_DTYPE),
        counts=np.zeros((classes, 2), np.int32),
        demands=np.full(gpus + 1, -1, np.int32),
        waits_s=np.zeros((gpus + 1, 2)),
        factors=np.ones((gpus + 1, 2)),
        leaker=np.full(gpus, -1, np.int32),
        gpu_slot=np.zeros(gpus, np.int32),
        slot_gpu=np.zeros(slots + 1, np.int32),
        slot_order=np.zeros(slots, np.int32),
        node_order=np.zeros(nodes, np.int32),
        on_offer=np.zeros(slots + nodes + racks, np.int32),
        affinity=np.zeros(int(cluster.racks["nodes"].max()), np.int32),
        verdicts=np.zeros(0, VERDICT_DTYPE),
    )


def slot_sizes(instance: Instance) -> np.ndarray:
    """int32 [S] [GPU]: size of each slot, in GPU order; a machine without slots is one."""
    return np.repeat(instance.cluster.slot_gpus, instance.cluster.slots)


def fill_tasks(delay: Delay, instance: Instance, best_ideal: bool, pow2: bool) -> None:
    """Write down what does not change of each job.

    Parameters
    ----------
    best_ideal : the ideal time is that on the best placement, communication included
    pow2 : demands share a history with all up to the same power of two
    """
    jobs, cluster = instance.workload.jobs, instance.cluster
    gang = jobs["gpus"].astype(np.int64)
    tasks = delay.tasks
    tasks["id"], tasks["gpus"] = jobs["id"], gang
    # N is a whole number in the papers' job files: undo the rounding of N / g.
    asked = np.where(np.isfinite(jobs["iterations"]), jobs["iterations"], instance.iterations) * gang
    whole = np.rint(asked)
    tasks["iterations"] = tasks["left"] = np.where(np.abs(whole - asked) <= 1e-9 * whole, whole, asked)
    fastest = instance.ideal_iteration_s if best_ideal else instance.compute_s[:, MACHINE].min(axis=1)
    tasks["compute_s"] = fastest[instance.job_class]
    tasks["ideal_s"] = tasks["compute_s"] * tasks["iterations"] / gang
    tasks["won_step"] = -1
    tier = cluster.tightest_tier(gang)
    tasks["best_tier"] = np.where(tier == SLOT, -1, tier)
    names = instance.workload.profiles.rows["name"][jobs["profile"]]
    tasks["low_skew"] = [_model(str(name)) in LOW_SKEW for name in names]
    sizes = np.unique(gang)
    keys = 1 << np.array([int(size - 1).bit_length() for size in sizes.tolist()], np.int64) if pow2 else sizes
    classes = np.unique(keys, return_inverse=True)[1]
    delay.demands[sizes] = classes
    tasks["demand"] = delay.demands[gang]


# Models that the authors' Tiresias calls insensitive to placement (its class TiresiasInterJobScheduler names them).
LOW_SKEW: Final = ("resnet50", "resnet18", "bert")


def _model(profile: str) -> str:
    """Name of a profile's model; tables may add a setting after a comma."""
    return "".join(letter for letter in profile.partition(",")[0].lower() if letter.isalnum())
