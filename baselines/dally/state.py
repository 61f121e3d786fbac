"""The arrays of a delay scheduler: its rules, its data about jobs, and its state."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Batched, Handle, array
from gpusched_env.core.state import FIRST_SHAPE
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.cluster import MACHINE, SLOT
from gpusched_env.problem.instance import Instance

PRIORITIES: Final = ("nw", "gpu-time", "arrival", "first-start")
POLICIES: Final = ("dally", "tiresias", "gandiva")
# Indices into the histories and into the table of waits.
MACHINE_WAITS, RACK_WAITS = 0, 1  # histories: waits that ended on a machine, or in a rack
RACK_TIMER, NETWORK_TIMER = 0, 1  # table of waits: which timer
GROW, SORT, TUNE = range(3)  # what the policy asks Python to do: double the arrays, sort the places, set the timers

RULES_DTYPE: Final = np.dtype(
    [
        # rules; they do not change during a run
        ("lease_s", "<f8"),  # [s] inf = none
        ("ckpt_per_gpu_s", "<f8"),  # [s] delay of an offer for each freed GPU
        ("idle_retry_s", "<f8"),  # [s]
        ("hist", "<f8"),  # [leases] length of the histories
        ("cap_rack", "<f8"),  # share of hist
        ("floor_rack", "<f8"),  # [leases]
        ("floor_nw", "<f8"),  # [leases]
        ("k_sigma", "<f8"),
        ("min_sample", "<f8"),  # [leases] shorter waits are not recorded
        ("empty_value", "<f8"),  # [leases] statistic of an empty history
        ("step_iterations", "<f8"),  # iterations of a gang in a step; 0 = no steps
        ("priority", "<i4"),  # index into PRIORITIES
        ("policy", "<i4"),  # index into POLICIES
        ("tuned", "<i4"),  # 1 = the timers are set from the histories
        ("exact", "<i4"),  # 1 = every decision point and every timer expiry is an offer
        ("best_fit", "<i4"),
        ("renew", "<i4"),  # 1 = a lease is renewed if no job waits and no tier would be tighter
        ("rebid", "<i4"),  # quirk Q1
        ("look_ahead", "<i4"),  # quirk Q2
        ("alias", "<i4"),  # quirk Q3
        ("statistics", "<i4"),  # quirk Q4: 1 = statistics events still occur
        ("prune", "<i4"),  # quirk Q5
        ("rounded", "<i4"),  # 1 = Nw is rounded to 30 bits, so that jobs whose Nw differ only by rounding errors tie
        ("leased", "<i4"),  # 1 = gangs are started with a lease
        ("sorted", "<i4"),  # 1 = a function sorts the places after each change
        ("victims", "<i4"),  # 1 = waiting jobs may have running gangs preempted (victims)
        ("victim_limit", "<i4"),  # how often one gang may be a victim
        ("victim_margin", "<f8"),  # by how much a victim's Nw must be larger
        ("victim_held_s", "<f8"),  # [s] for how long a victim must have held its GPUs
        ("machine_gpus", "<i8"),  # [GPU] of the largest machine
        ("rack_gpus", "<i8"),  # [GPU] of the largest rack
        # state of the run
        ("next_tune_s", "<f8"),  # [s] next time at which Python tunes the timers; inf = never
        ("phase", "<i8"),  # of policy.py
        ("asks", "<i8"),  # what the policy asks Python to do
        ("starts", "<i8"),  # 1 = the latest decision is a start
        ("tier", "<i8"),  # of its place
        ("seen", "<i8"),  # jobs that have arrived and are in the queue
        ("queued", "<i8"),  # entries in use of ``queue``
        ("held", "<i8"),  # entries in use of ``held``
        ("returned", "<i8"),  # releases of GPUs handled so far
        ("due", "<i8"),  # offers to be made now
        ("later", "<i8"),  # entries in use of ``offers``
        ("cursor", "<i8"),  # next entry of ``order``
        ("ordered", "<i8"),  # entries in use of ``order``
        ("offered", "<i8"),  # 1 = there has been an offer at this decision point
        ("stopped", "<i8"),  # 1 = gangs have been stopped since the phase OBSERVES
        ("retuned", "<i8"),  # 1 = a timer has changed during this offer
        ("unsorted", "<i8"),  # 1 = the GPUs on offer have changed since the places were sorted
        ("free", "<i8"),  # [GPU] on offer
        ("free_before", "<i8"),  # [GPU] on offer at the end of the last decision point
        ("most_in_slot", "<i8"),  # [GPU] on offer in one slot, at most
        ("most_in_machine", "<i8"),
        ("most_in_rack", "<i8"),
        ("verdicts", "<i8"),  # entries in use of ``verdicts``
        ("marks", "<i4"),  # scratch: 1 = counted victims are marked to stop
    ]
)
TASK_DTYPE: Final = np.dtype(
    [
        ("id", "<i8"),
        ("iterations", "<f8"),  # on one GPU: N of the paper's simulator
        ("compute_s", "<f8"),  # [s] of an iteration without communication
        ("ideal_s", "<f8"),  # [s] N x compute_s / gang
        ("left", "<f8"),  # remaining iterations on one GPU at the latest release
        ("run_s", "<f8"),  # [s] running seconds up to the latest release
        ("service_gpu_s", "<f8"),  # [GPU s] the same x gang size
        ("nw", "<f8"),  # Nw, frozen while it waits
        ("key", "<f8"),  # sort key, smaller first
        ("arrival_s", "<f8"),  # [s]
        ("last_s", "<f8"),  # [s] arrival, then the latest start, then the latest release
        ("lease_end_s", "<f8"),  # [s] when the lease ends
        ("iteration_s", "<f8"),  # [s] of an iteration on its placement
        ("step_s", "<f8"),  # [s] of a step on its placement
        ("victim_nw", "<f8"),  # Nw if it may be a victim; -1 = it may not
        ("won_step", "<i8"),  # quirk Q1: step in which it has leaked GPUs; -1 = none
        ("steps", "<i8"),  # steps planned in this lease so far
        ("gpus", "<i4"),  # [GPU]
        ("demand", "<i4"),  # row of the histories
        ("best_tier", "<i4"),  # tightest tier of the empty cluster; -1 = a slot
        ("early", "<i4"),  # 1 = the look-ahead ends its lease
        ("leaked", "<i4"),  # [GPU] leased but unused: quirk Q1, or kept until they are free
        ("low_skew", "<i4"),  # 1 = Tiresias may spread its model
        ("stops", "<i4"),  # 1 = it must stop before its lease ends
        ("evicted", "<i4"),  # how often it has been a victim
        ("inside", "<i4"),  # scratch: [GPU] that it holds in the place being examined
        ("padding", "<i4"),
    ]
)
SAMPLE_DTYPE: Final = np.dtype([("time_s", "<f8"), ("wait", "<f8")])  # [s] time, [leases]
VERDICT_DTYPE: Final = np.dtype(
    [
        ("time_s", "<f8"),  # [s]
        ("waited_s", "<f8"),  # [s] since it last held GPUs
        ("rack_wait_s", "<f8"),  # [s] its timers at that time
        ("network_wait_s", "<f8"),  # [s]
        ("job", "<i4"),  # row
        ("tier", "<i4"),  # of placing.py: 0 slot, 1 machine, 2 rack, 3 anywhere, 4 random; -1 = it has refused
    ]
)


class Delay(Handle):
    """The arrays of a delay scheduler for one run; kernels take them in addition to those of the simulation."""

    rules = array(RULES_DTYPE)
    tasks = array(TASK_DTYPE, "jobs")
    queue = array(np.int32, "jobs")  # waiting jobs in the order in which they are asked
    order = array(np.int32, "jobs")  # jobs that the current offer asks
    held = array(np.int32, "gpus")  # jobs that hold GPUs
    offers = array(np.float64, "offers")  # [s] times of scheduled offers
    samples = array(SAMPLE_DTYPE, "demand_classes", "spreads", "samples")  # waits that ended on a machine, in a rack
    counts = array(np.int32, "demand_classes", "spreads")  # samples in use
    demands = array(np.int32, "gangs", fill=-1)  # demand class of each gang size
    waits_s = array(np.float64, "gangs", "timers")  # [s] wait for a rack, wait for the network, of each gang size
    factors = array(np.float64, "gangs", "timers", fill=1.0)  # factors on the hand tuner's timers
    ahead_s = array(np.float64, "classes", "pace_rows", "types")  # [s] that the look-ahead takes a step to last
    # row of the job for which a GPU is leaked or kept; -1 = none; row + J = the end of its lease frees it (quirk Q1)
    leaker = array(np.int32, "gpus", fill=-1)
    gpu_slot = array(np.int32, "gpus")  # slot of each GPU
    slot_gpu = array(np.int32, "slots_and_end")  # first GPU of each slot
    slot_order = array(np.int32, "slots")  # slots as they are visited
    node_order = array(np.int32, "nodes")  # machines as they are visited
    rack_order = array(np.int32, "racks")  # racks, ascending
    on_offer = array(np.int32, "places")  # GPUs on offer in each slot, machine, rack
    affinity = array(np.int32, "machine_numbers")  # Gandiva: affinity by machine number in its rack
    verdicts = array(VERDICT_DTYPE, "verdicts")  # acceptances and refusals; empty = not recorded


def allocate_delay(instance: Instance) -> Delay:
    """Allocate the arrays for an instance; rules and orders are filled in later."""
    if np.isinf(instance.iteration_s).any():
        kind, _, column = np.argwhere(np.isinf(instance.iteration_s))[0].tolist()
        name = instance.workload.profiles.rows["name"][instance.classes[kind, 0]]
        raise SchedulerError(
            f"dally: {str(name)!r} on {instance.classes[kind, 1]} GPUs cannot run on "
            f"{instance.cluster.gpu_types[column]}, and offers ignore GPU types; leave out such jobs, or "
            "take another scheduler"
        )
    cluster, jobs = instance.cluster, len(instance.workload)
    gpus, nodes, racks = cluster.gpus, len(cluster.nodes), len(cluster.racks)
    slots = len(slot_sizes(instance))
    sizes = {
        "jobs": jobs, "gpus": gpus, "offers": 2 * gpus + 64,
        "demand_classes": len(np.unique(instance.workload.jobs["gpus"])),
        "spreads": 2, "samples": 64, "gangs": gpus + 1, "timers": 2, "slots": slots, "slots_and_end": slots + 1,
        "nodes": nodes, "racks": racks, "places": slots + nodes + racks,
        "machine_numbers": int(cluster.racks["nodes"].max()), "verdicts": 0,
    }  # fmt: skip
    delay: Delay = Batched(Delay, 1, sizes, ahead_s=_ahead_seconds(instance)).handle(0)
    return delay


def _ahead_seconds(instance: Instance) -> np.ndarray:
    """float64 [C, rows of ``paces``, GPU types] [s]: length of the next step as the look-ahead (quirk Q2) takes it.

    The order of the operations is that of the authors' code, which is not that of the length of a step itself.
    """
    steps, gang = instance.semantics.step_iterations, instance.classes[:, 1, None, None]
    ahead_s = instance.iteration_s * steps / gang
    if (shapes := instance.shapes) is None:
        return ahead_s
    room = np.zeros((len(gang), FIRST_SHAPE - ahead_s.shape[1], ahead_s.shape[2]))
    by_shape = shapes.compute_s * steps / shapes.efficiency[:, :, None] / gang
    return np.concatenate([ahead_s, room, by_shape], axis=1)


def slot_sizes(instance: Instance) -> np.ndarray:
    """int32 [S] [GPU]: size of each slot, in GPU order; a machine without slots is one slot."""
    return np.repeat(instance.cluster.slot_gpus, instance.cluster.slots)


def fill_tasks(delay: Delay, instance: Instance) -> None:
    """Write the constant data of each job; its ideal time is without communication."""
    jobs, cluster = instance.workload.jobs, instance.cluster
    gang = jobs["gpus"].astype(np.int64)
    tasks = delay.tasks
    tasks["id"], tasks["gpus"] = jobs["id"], gang
    # N is an integer in the authors' job files, so the rounding of N / g can be undone.
    counted = jobs["iterations"] * instance.semantics.step_ratio
    asked = np.where(np.isfinite(counted), counted, instance.iterations) * gang
    whole = np.rint(asked)
    tasks["iterations"] = tasks["left"] = np.where(np.abs(whole - asked) <= 1e-9 * whole, whole, asked)
    tasks["compute_s"] = instance.compute_s[:, MACHINE].min(axis=1)[instance.job_class]
    tasks["ideal_s"] = tasks["compute_s"] * tasks["iterations"] / gang
    tasks["won_step"] = -1
    tier = cluster.tightest_tier(gang)
    tasks["best_tier"] = np.where(tier == SLOT, -1, tier)
    names = instance.workload.profiles.rows["name"][jobs["profile"]]
    tasks["low_skew"] = [_model(str(name)) in LOW_SKEW for name in names]
    sizes = np.unique(gang)
    delay.demands[sizes] = np.arange(len(sizes))
    tasks["demand"] = delay.demands[gang]


# Models that the authors' class TiresiasInterJobScheduler calls insensitive to placement.
LOW_SKEW: Final = ("resnet50", "resnet18", "bert")


def _model(profile: str) -> str:
    """Return the normalised name of the model of a profile; a profile may have a setting after a comma."""
    return "".join(letter for letter in profile.partition(",")[0].lower() if letter.isalnum())
