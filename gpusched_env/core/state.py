"""The arrays of a simulation: their names, fields, shapes and units."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from gpusched_env.core.handle import Batched, Handle, array
from gpusched_env.core.network.arrays import (
    CUT_DTYPE,
    LINK_STATE_DTYPE,
    PAIR_DTYPE,
    RANKED_DTYPE,
    ROUTE_DTYPE,
    USE_DTYPE,
    empty_network,
    lay_network,
    network_sizes,
)
from gpusched_env.event_log import EVENT_DTYPE
from gpusched_env.problem.cluster import RACK_DTYPE, TIERS_WITH_SLOTS, Cluster
from gpusched_env.problem.dependencies import Holds
from gpusched_env.problem.energy import METERS, SERIES_DTYPE, STATES
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.outages import Recovery
from gpusched_env.problem.workload import PLAN_DTYPE

_LINE: Final = 64  # [byte] of a cache line
_JOBS_TOGETHER: Final = 2048  # jobs per block; the records of a block stay in the cache while their fields are written


def whole_lines(fields: list[tuple[str, str]]) -> np.dtype[Any]:
    """Pad a record to whole cache lines, so that no two records share a cache line."""
    unused = -np.dtype(fields).itemsize % _LINE
    return np.dtype([*fields, ("unused", np.uint8, (unused,))])


# Job status.
FUTURE, WAITING, RUNNING, FINISHED, REFUSED = range(5)
# Phase of a replica. A replica still holds its GPUs during a checkpoint.
IDLE, ACTIVE, CHECKPOINTING = range(3)

WORLD_DTYPE: Final = whole_lines(
    [
        # hot: read at every step, at most 448 bytes
        # state of the run
        ("clock_s", "<f8"),
        ("timer_s", "<f8"),  # [s] earliest time at which the scheduler asked to be woken; inf = none
        ("next_arrival", "<i8"),  # row of the next job to be submitted
        ("entered", "<i8"),  # number of jobs that have entered the queue so far: submitted, and not held
        ("next_tick", "<i8"),  # number of the next round
        ("deciding", "<i8"),  # 1 = there is a decision point after all events of this time
        ("first_waiting", "<i8"),  # index at which the waiting list begins (waiting.py)
        ("waiting", "<i8"),  # length of the waiting list
        ("waiting_gpus", "<i8"),  # [GPU] sum of the gang sizes of the waiting jobs
        ("running", "<i8"),  # number of replicas that hold GPUs, replicas in a checkpoint included
        ("finished", "<i8"),  # number of jobs that have left the system: finished, or refused
        ("starts", "<i8"),  # number of starts of gangs so far
        ("returns", "<i8"),  # number of times that a gang has freed its GPUs so far
        ("free_gpus", "<i8"),
        ("checkpointing_gpus", "<i8"),  # held by gangs that are being checkpointed
        ("leases_over", "<i8"),  # number of gangs whose lease ends at the present time and that await a decision
        ("preemptions", "<i8"),
        ("random", "<i8"),  # state of the generator of random placements, 1 .. 2**32-1
        # integrals over time since the start of the run, for rewards
        ("job_seconds", "<f8"),  # [s] integral of the number of jobs in the system
        ("slowdown_seconds", "<f8"),  # integral of slowdown_weight
        ("busy_gpu_seconds", "<f8"),  # [GPU s] integral of the number of GPUs that gangs hold
        ("slowdown_weight", "<f8"),  # [1/s] sum of 1/ideal_s over jobs in the system
        ("fairness_sum", "<f8"),  # finish-time fairness rho summed over finished jobs
        # event log buffers, drained by Python
        ("events", "<i8"),  # records in the buffer
        ("event_gpus", "<i8"),  # GPU ids in the buffer
        ("gpus_before", "<i8"),  # number of GPU ids that have been drained so far
        # sizes of this environment; the arrays may be longer
        ("jobs", "<i8"),
        ("nodes", "<i8"),
        ("racks", "<i8"),
        ("gpus", "<i8"),
        ("node_gpus", "<i8"),  # [GPU] of the largest node
        ("types", "<i8"),  # GPU types
        # rules of the simulation, fixed
        ("round_s", "<f8"),  # [s] 0 = exact events
        ("checkpoint_s", "<f8"),  # [s]
        ("restore_s", "<f8"),  # [s]
        ("start_s", "<f8"),  # [s]
        ("latencies", "<i8"),  # 1 = first starts take longer than start_s, by ``latencies``
        ("time_limit_s", "<f8"),  # [s] inf = none
        ("slot_s", "<f8"),  # [s] > 0 = slot length; only whole iterations count in each slot
        ("max_copies", "<i8"),  # maximum number of copies of a gang that may train a job at the same time
        ("sharing", "<i8"),  # 1 = jobs slow each other down and need memory on the GPUs that they share
        ("gpu_jobs", "<i8"),  # maximum number of jobs that may hold a GPU at the same time
        ("pace_until_lease", "<i8"),  # 1 = when a co-located job leaves, rates change at the next lease
        ("step_iterations", "<f8"),  # > 0 = iterations per step; work comes in whole steps
        # contention
        ("contention", "<i8"),  # number of the contention model, fixed; 0 = none, rates follow from ``paces``
        ("uncommitted", "<i8"),  # 1 = the settled rate of some replica may differ from the rate at which it runs
        ("first_free_use", "<i8"),  # head of the chain of unused rows of ``uses``
        ("changed", "<i8"),  # number of links whose flows have changed since the rates were settled
        ("queued", "<i8"),  # scratch: length of the queue of max-min
        ("listed", "<i8"),  # number of replicas whose rate or iteration time may change when rates are settled
        ("next_change", "<i8"),  # number of the next change of links
        ("closing_s", "<f8"),  # [s] time of the next entry of ``closings``; inf = none
        ("node_sets", "<i8"),  # number of node sets; 0 = every job may use every node
        ("choices", "<i8"),  # number of pairs of a job and a partition; 0 = no job has several
        ("holds", "<i8"),  # 1 = some job may be held after its submission
        ("eligible_s", "<f8"),  # [s] time at which the next held job enters the queue; inf = none is known
        ("restarting", "<i8"),  # > 0 = after a decision point with ``restart_all_s``; 2 = some gang has been restarted
        ("quiet", "<i8"),  # number of wake-ups since advance last returned because of their number
        # cold: rules of the simulation and of contention (gpusched_env.network), fixed
        ("eligible", "<i8"),  # number of held jobs in the heap ``eligible``
        ("recovers", "<i8"),  # 1 = gangs may fail, or checkpoints of running gangs take time (``recovery``)
        ("fails", "<i8"),  # number of times that a gang has failed so far
        ("down_gpus", "<i8"),  # [GPU] that no gang holds, on nodes that are down
        ("meters", "<i8"),  # number of meters of energy; 0 = none runs
        ("reshard_s", "<f8"),  # [s] without progress, besides, if a gang goes on with another plan
        ("detection_s", "<f8"),  # [s] for which a gang holds its GPUs after a crash
        ("recovery_s", "<f8"),  # [s] without progress when a gang resumes after a failure
        ("leaving", "<i8"),  # 1 = a reservation has closed nodes just now, so gangs may have to leave
        ("parted", "<i8"),  # number of rows of ``parts``; 0 = no class demands anything of nodes
        ("next_closing", "<i8"),  # number of the next entry of ``closings``
        ("closings", "<i8"),  # number of entries of ``closings``
        ("elastic", "<i8"),  # 1 = some job may run on several numbers of GPUs
        ("resize_s", "<f8"),  # [s] without progress after a resize
        ("restart_all_s", "<f8"),  # [s] without progress after the restart of all gangs; < 0 = there is none
        ("calm", "<i8"),  # count of what had happened when all gangs restarted last; -1 = a scheduler lets them restart
        ("merge_s", "<f8"),  # [s] additional time of a start of several copies
        ("least_busy_lambda", "<f8"),  # lambda of the placement rule least-busy-servers
        ("changes", "<i8"),  # number of changes of links
        ("k_mode", "<i8"),
        ("duty", "<i8"),
        ("levels", "<i8"),  # of priority (contention model "strict-priority")
        ("duplex", "<i8"),  # 1 = a row of the link table is for both directions
        ("edges", "<i8"),  # number of groups of machines with the same attachment
        ("nics", "<i8"),
        ("path_seed", "<i8"),
        ("xi1", "<f8"),
        ("alpha", "<f8"),
        ("shared_loss", "<f8"),  # fraction of its rate that a gang loses on a shared machine (contention model "flat")
        ("extra", "<f8"),  # budget of contention and overhead (SJF-BCO, section 7)
        ("gpu_Bps", "<f8"),  # [byte/s] of a GPU's port inside a machine
        ("gpu_latency_s", "<f8"),
        ("nic_Bps", "<f8"),  # [byte/s] of all ports of a machine together
        ("reduction_Bps", "<f8"),  # [byte/s] at which a GPU adds up gradients; inf = it takes no time
        ("machine_overhead_s", "<f8"),  # [s] of overhead in an iteration per machine of the gang
        ("switch_share", "<f8"),  # of gpu_Bps that a gang reaches while the switch reduces; 0 = it does not
        ("gpu_depth_s", "<f8"),  # [s] of the pipeline on one machine; -1 = latencies are those of steps
        ("nic_depth_s", "<f8"),  # [s] of the pipeline on several
        ("planned", "<i8"),  # 1 = some gang has a plan
        # energy (core/metering.py)
        ("sleep_after_s", "<f8"),  # [s] inf = machines never sleep
        ("sleep_w", "<f8"),  # [W] of a GPU of a machine that sleeps
        ("wake_j", "<f8"),  # [J] of a machine that wakes
    ]
)
JOB_STATE_DTYPE: Final = whole_lines(
    [
        # hot, 64 bytes
        ("arrival_s", "<f8"),  # [s] of a job that has been held: when it entered the queue
        ("last_stop_s", "<f8"),  # [s] latest release of GPUs; before the first one, arrival
        ("iterations", "<f8"),
        ("ideal_s", "<f8"),  # [s] run time on the ideal placement
        ("remaining", "<f8"),  # iterations left at the last update (events.touch)
        ("service_s", "<f8"),  # [s] time with progress up to the last update (events.touch)
        ("gpus", "<i4"),  # [GPU] its present size; while it waits, the size that it requests
        ("job_class", "<i4"),  # row of ``paces`` for this size
        ("replica", "<i4"),  # row of the replica table, -1 = none
        ("preemptions", "<i4"),
        # cold
        ("first_start_s", "<f8"),  # [s] inf = not yet
        ("finish_s", "<f8"),  # [s] inf = not yet
        ("job_seconds", "<f8"),  # WORLD.job_seconds at arrival
        ("status", "<i4"),  # FUTURE (held jobs, too), WAITING, RUNNING, FINISHED, REFUSED; in a checkpoint: RUNNING
        ("asked", "<i4"),  # [GPU] size that it requests
        ("first_size", "<i4"),  # row of ``sizes`` for the smallest of its sizes
        ("sizes", "<i4"),  # number of its sizes, which ascend from there; 1 = a rigid job
        ("earlier_gpu_s", "<f8"),  # [GPU s] attained service at the sizes that it had before the present one
        ("earlier_s", "<f8"),  # [s] the part of service_s at these sizes
        ("limit_s", "<f8"),  # [s] service after which the job is killed; inf = never
    ]
)
REPLICA_DTYPE: Final = np.dtype(
    [
        # hot: the first 64 bytes
        ("job", "<i4"),
        ("phase", "<i4"),  # IDLE, ACTIVE, CHECKPOINTING
        ("gpus", "<i4"),  # [GPU]
        ("tier", "<i4"),
        ("gang", "<i4"),  # as jobs.gpus: of one copy
        ("job_class", "<i4"),  # as jobs.job_class
        ("since_s", "<f8"),  # [s] time from which progress counts
        ("service_s", "<f8"),  # as jobs.service_s
        ("settled_s", "<f8"),  # [s] seconds of one iteration at the present flows
        ("accumulation_s", "<f8"),  # [s] of all sub-steps of an iteration but the last
        ("slowdown", "<f8"),  # factor by which the gangs that share its GPUs slow it down
        ("start_s", "<f8"),  # [s] time at which it took its GPUs
        ("until_s", "<f8"),  # [s] completion if ACTIVE, release if CHECKPOINTING
        ("lease_s", "<f8"),  # [s] end of its lease; inf = no lease
        ("iteration_s", "<f8"),  # [s] seconds of one iteration at the rate it runs at
        ("first_gpu", "<i4"),  # head of the linked list of its seats (gpu_next)
        ("lease_over", "<i4"),  # 1 = its lease ends at the present time, and it awaits a decision
        ("sequence", "<i8"),  # number of its start
        # contention: communication of one iteration takes fixed_s + wire_bytes / rate_Bps
        ("told_s", "<f8"),  # [s] iteration_s as last logged; -1 = not logged yet
        ("compute_s", "<f8"),  # [s]
        ("fixed_s", "<f8"),  # [s] latency, and transfers over links that are not shared
        ("wire_bytes", "<f8"),  # [byte] over each edge of its ring
        ("overlap", "<f8"),
        ("solo_Bps", "<f8"),  # [byte/s] of a ring edge on an idle network
        ("rate_Bps", "<f8"),  # [byte/s] settled
        ("priced_Bps", "<f8"),  # [byte/s] rate from which settled_s was computed
        ("profile", "<i4"),
        ("machines", "<i4"),
        ("first_use", "<i4"),  # head of its linked list of ``uses``; -1 = none
        ("bottleneck", "<i4"),  # link that bounds its rate; -1 = its own ports
        ("is_listed", "<i4"),  # 1 = its rate or iteration may change when rates are settled
        ("listed", "<i4"),  # entry i of the list of such replicas
        # sharing
        ("sub_batch", "<i4"),  # option of ``sub_batches``
        ("company_changed", "<i4"),  # 1 = ``slowdown`` is out of date and will be updated before time moves
        ("compute_share", "<f8"),  # compute time of one sub-step / that of the whole batch
        ("solo_s", "<f8"),  # [s] seconds of one iteration alone on its GPUs, with the links of its start
        ("benefit_s", "<f8"),  # [s] scratch: mean JCT of the pair if a waiting job joined it now; inf = it must not
        ("option", "<i4"),  # scratch: sub-batch of that job
        ("offers", "<i4"),  # scratch: lowest of its GPUs that has room for that job; -1 = none
    ]
)
SIZE_DTYPE: Final = np.dtype(
    [
        ("gpus", "<i4"),  # [GPU]
        ("job_class", "<i4"),  # row of ``paces`` for this size
    ]
)
SUB_BATCH_DTYPE: Final = np.dtype(
    [
        ("sub_steps", "<i8"),  # gradient-accumulation sub-steps; 0 = no such option
        ("compute_share", "<f8"),  # compute time of one sub-step / that of the whole batch
        ("memory", "<f8"),  # fraction of a GPU's memory
    ]
)
PACE_DTYPE: Final = np.dtype(
    [
        ("iteration_s", "<f8"),  # [s] of one iteration on an idle network
        ("compute_s", "<f8"),  # [s] of compute in one iteration
        ("communication_s", "<f8"),  # [s] of communication in one iteration
        ("gradient_bytes", "<f8"),  # [byte]
        ("overlap", "<f8"),
        ("shape", "<i8"),  # key of the placement shape (network/dimensions.py); -1 = a row of a tier, or unused
        ("profile", "<i4"),
        ("collective", "<i4"),  # number of the collective
        ("measured", "<i4"),  # 1 = communication_s is measured, so gradient_bytes are ignored
        ("padding", "<i4"),  # keeps the 8-byte fields aligned
    ]
)
NODE_STATE_DTYPE: Final = np.dtype(
    [
        ("rack", "<i4"),  # as NODE_DTYPE
        ("first_gpu", "<i4"),
        ("gpus", "<i4"),
        ("gpu_type", "<i4"),
        ("out", "<i4"),  # link out of the machine, and into it
        ("into", "<i4"),
        ("bus", "<i4"),  # link that all gangs on the machine share; -1 = none
        ("edge", "<i4"),  # group of machines with the same attachment
        ("taken", "<i4"),  # scratch: GPUs of this machine that a gang takes; or a mark
        ("slot_gpus", "<i4"),  # [GPU] of a slot
        ("slots_taken", "<i8"),  # scratch: bit set of the slots of this machine that a gang takes
        ("gangs", "<i4"),  # scratch: number of gangs that hold GPUs of this machine
        ("following", "<i4"),  # scratch: next machine of a list; -1 = none
        ("hidden", "<i4"),  # [GPU] scratch: free, but not for the gang that is being placed
        ("crashes", "<i4"),  # number of crashes of this machine so far
    ]
)
PART_DTYPE: Final = np.dtype(
    [
        ("gpus", "<i4"),  # [GPU] of a part of the gang, which must not be split over machines; 0 = any split will do
        ("most", "<i4"),  # [GPU] on one machine at most
    ]
)
RACK_STATE_DTYPE: Final = np.dtype(
    [
        *((name, RACK_DTYPE[name]) for name in RACK_DTYPE.names or ()),
        ("uplink", "<i4"),  # first row of the link out of the rack; -1 = none
        ("taken", "<i4"),  # scratch: 1 = a gang takes GPUs here
    ]
)
DUE_DTYPE: Final = np.dtype(
    [
        ("due_s", "<f8"),  # [s] time of the next event; inf = none
        ("number", "<i4"),  # row of the replica table
        ("kind", "<i4"),  # kind of the event
    ]
)
METER_DTYPE: Final = np.dtype(
    [
        ("total", "<f8"),  # what it shows, in its unit
        ("at", "<i8"),  # row of ``series`` that holds at the present time
        ("end", "<i8"),  # end of its rows of ``series``; none = it does not run
    ]
)
BUSY_DTYPE: Final = np.dtype(
    [
        ("busy_s", "<f8"),  # [s] for which gangs have held the GPU, without the present period
        ("since_s", "<f8"),  # [s] begin of the present period; inf = the GPU is free
    ]
)

DRAIN: Final = 1 << 16  # unit in ``closed`` of the reasons for which gangs on the node run on
CAPPED: Final = 2  # bit of ``down``: a power cap closes the node
CLOSING_DTYPE: Final = np.dtype(
    [
        ("time_s", "<f8"),  # [s]
        ("reservation", "<i4"),  # -1 = an outage of ``node``
        # what ``closed`` grows by for the sets that the reservation bars: 1 or DRAIN; < 0 at its end. Outage: 1 = the
        # node crashes, 0 = and comes back at once, -1 = it comes back; CAPPED: a power cap closes it; < 0 at its end
        ("step", "<i4"),
        ("node", "<i4"),  # -1 = a reservation
        ("padding", "<i4"),  # keeps the 8-byte field aligned
    ]
)

RECOVERY_DTYPE: Final = np.dtype(
    [
        ("segment_s", "<f8"),  # [s] of progress and checkpoint from one checkpoint to the next; inf = there are none
        ("stretch", "<f8"),  # time of an iteration with these checkpoints / without
        ("begin_s", "<f8"),  # [s] when the first segment of its gang begins
        ("saved", "<f8"),  # iterations left at its last checkpoint, as of the last update (events.touch)
        ("fails_s", "<f8"),  # [s] service_s at which the present attempt fails by itself; inf = it does not
        ("next_failure", "<i4"),  # entry of ``failures`` for the attempt after this one
        ("end_of_failures", "<i4"),  # and the end of these entries
        ("attempts_left", "<i4"),  # failures by itself after which the job ends; 0 = none has such an effect
        ("failed", "<i4"),  # 1 = its gang has failed, and no other has started since
    ]
)
CHOICE_DTYPE: Final = np.dtype(
    [
        ("job_class", "<i4"),  # class of the job in this partition
        ("padding", "<i4"),  # keeps the 8-byte field aligned
        ("limit_s", "<f8"),  # [s] service after which the job is killed there; inf = never
    ]
)

HOLD_DTYPE: Final = np.dtype(
    [
        ("eligible_s", "<f8"),  # [s] entry into the queue, as far as known; if it is cancelled: when it leaves
        ("open", "<i4"),  # number of its dependencies that are not satisfied
        ("cancelled", "<i4"),  # 1 = a dependency can never be satisfied
        ("submitted", "<i4"),  # 1 = it has been submitted, and was held then
        ("fails", "<i4"),  # 1 = it fails when its work is done
        ("first", "<i4"),  # entry of ``dependents`` for the first job that depends on it
        ("dependents", "<i4"),  # number of these entries
    ]
)
DEPENDENT_DTYPE: Final = np.dtype(
    [
        ("row", "<i4"),  # job that is held
        ("kind", "<i4"),  # index into holds.KINDS
        ("delay_s", "<f8"),  # [s]
    ]
)

RULE_DTYPE: Final = np.dtype(
    [
        ("anywhere", "<i8"),  # 1 = the rule places every gang for which enough GPUs are free
        ("shares", "<i8"),  # flags of core/sharing/choices.py for the choice of shared GPUs; 0 = it never shares
    ]
)
MODEL_DTYPE: Final = np.dtype(
    [
        ("is_known", "<i8"),
        ("reaches_ports", "<i8"),  # 1 = a flow that begins or ends may change the rates of gangs on the same ports
        ("begins", "<i8"),  # 1 = it has a hook ``at_start``
        ("is_own_alone", "<i8"),  # 1 = it has a hook ``alone_s``
        ("solves", "<i8"),  # 1 = it has a hook ``solver``
        ("keeps_idle_flows", "<i8"),  # 1 = gangs that send no bytes still count on their links
    ]
)
MODEL_FLAGS: Final = np.zeros(64, MODEL_DTYPE)  # index = number of the contention model, for all runs
RULE_FLAGS: Final = np.zeros(128, RULE_DTYPE)  # index = number of the placement rule, for all runs


class Run(Handle):
    """The arrays of one simulation. Kernels and Python read them alike, as in ``sim.jobs[row]["gpus"]``.

    The axes are jobs, nodes, racks, GPUs, job classes, GPU types, links, seats and replicas, among others. A seat is a
    place of a gang on a GPU; if jobs do not share GPUs, there is one seat per GPU. The axis ``replicas`` has length
    seats + 1, because queries use the additional row when all seats are taken.
    """

    world = array(WORLD_DTYPE)
    jobs = array(JOB_STATE_DTYPE, "jobs")
    sizes = array(SIZE_DTYPE, "sizes")  # numbers of GPUs on which jobs may run
    replicas = array(REPLICA_DTYPE, "replicas")
    nodes = array(NODE_STATE_DTYPE, "nodes")
    racks = array(RACK_STATE_DTYPE, "racks")
    free = array(np.int32, "places")  # free GPUs of each node, then, from world.nodes on, of each rack
    holder = array(np.int32, "seats", fill=-1)  # replica that holds the seat, -1 = free; seat g < GPUs is GPU g
    gpu_next = array(np.int32, "seats", fill=-1)  # next seat of the same gang, -1 = last
    gpu_node = array(np.int32, "gpus")  # node of each GPU
    waiting = array(np.int32, "jobs")  # waiting jobs, ascending rows (= tie order), from world.first_waiting on
    running = array(np.int32, "replicas")  # first world.running replicas that hold GPUs, by start; then the idle ones
    paces = array(
        PACE_DTYPE, "classes", "pace_rows", "types"
    )  # by tier, then by ascending key of the shape where shapes are priced
    events = array(EVENT_DTYPE, "events")  # buffer
    event_gpus = array(np.int32, "event_gpus")  # buffer
    chosen = array(np.int32, "gpus")  # ids of the GPUs of the latest placement
    links = array(LINK_STATE_DTYPE, "links")
    uses = array(USE_DTYPE, "uses")  # pairs of a replica and a link that its ring crosses
    ranked = array(RANKED_DTYPE, "ranked")  # empty unless the contention model is "strict-priority", as is ``cuts``
    cuts = array(CUT_DTYPE, "levels", "places_of_order")  # cheapest blocks of a beginning of the drawn order
    routes = array(ROUTE_DTYPE, "routes")
    pairs = array(PAIR_DTYPE, "pairs")  # route between two groups of machines
    plans = array(PLAN_DTYPE, "planned_classes")  # of each job class, gpus 0 = none; empty if no gang has a plan
    divisions = array(np.int32, "divided_classes")  # number of each class's division of the model; empty if it is free
    division = array(np.int32, "dividing_jobs")  # entry of ``divisions`` for the class in which each job ran last
    ranks = array(np.int32, "ranks")  # scratch: node of each rank of a gang with a plan
    ratios = array(
        np.float64, "profiles", "profiles", fill=1.0
    )  # rate of a profile beside another / rate alone (model "table")
    busy = array(BUSY_DTYPE, "gpus")  # time for which gangs have held each GPU
    sub_batches = array(SUB_BATCH_DTYPE, "classes", "sub_batches", "types")  # option 0 is the whole batch
    interference = array(np.float64, "sharers", "sharers", "sharer_types", fill=1.0)  # xi of a class beside another
    due = array(DUE_DTYPE, "gangs_twice")  # next events of gangs: the tournament tree of due.py
    class_set = array(
        np.int32, "set_classes"
    )  # set of nodes that each job class may use (gpusched_env.problem.partitions)
    closed = array(np.int32, "node_sets", "set_nodes")  # reasons why a node is closed to a set, 1 or DRAIN each
    reserved = array(np.int8, "reservations", "set_nodes")  # 1 = the node is reserved
    barred = array(np.int8, "reservations", "node_sets")  # 1 = the reservation closes its nodes to the set
    closings = array(CLOSING_DTYPE, "closings")  # beginnings and ends of reservations, by time
    parts = array(PART_DTYPE, "part_classes")  # what each job class demands of nodes; empty = no class demands anything
    choices = array(CHOICE_DTYPE, "choices")  # partitions in which jobs may start, by job; the first of each is usual
    first_choice = array(np.int32, "choice_jobs")  # first of ``choices`` of each job, and the end
    holds = array(HOLD_DTYPE, "held_jobs")  # of each job
    dependents = array(DEPENDENT_DTYPE, "dependents")  # by the job on which they depend
    eligible = array(np.int32, "held_jobs")  # heap of the held jobs that wait for a known time only (holding.py)
    entries = array(np.int32, "held_jobs")  # rows in the order in which the jobs entered the queue (holding.entry)
    latencies = array(np.float64, "latency_jobs")  # [s] of the first start of each job, besides start_s; or empty
    recovery = array(RECOVERY_DTYPE, "recovering")  # of each job; empty if nothing fails
    failures = array(np.float64, "failures")  # [s] of service of attempts after which they fail, by job
    down = array(np.int32, "failing_nodes")  # bits: 1 = it has crashed, CAPPED; GPUs without gangs are UNUSABLE
    ready = array(np.float64, "restarts")  # [s] end of the last start of each job; empty if gangs do not all restart
    deadlines = array(np.float64, "deadline_jobs", fill=np.inf)  # [s] of each job, inf = none; empty if no job has one
    meters = array(METER_DTYPE, "meters")  # in the order of METERS
    series = array(SERIES_DTYPE, "series")  # of all meters
    watts = array(np.float64, "meter_types", "states")  # [W] of a GPU
    idle_since_s = array(np.float64, "meter_nodes", fill=np.inf)  # [s] since when a node has no gang; inf = it has one
    rules = array(RULE_DTYPE, "rules")  # RULE_FLAGS
    models = array(MODEL_DTYPE, "models")  # MODEL_FLAGS


BUFFERS: Final = ("events", "event_gpus")  # of the log


class State(Batched):
    """The arrays of several runs: those of :class:`Run` with a leading batch axis.

    Parameters
    ----------
    batch : number of runs
    sizes : see :func:`lengths`
    """

    def __init__(self, batch: int, sizes: dict[str, int]) -> None:
        derived = {
            "places": sizes["nodes"] + sizes["racks"],
            "replicas": sizes["seats"] + 1,
            "gangs_twice": 2 * sizes["seats"],
            "event_gpus": 4 * sizes["gpus"] + GPU_BUFFER,
        }
        super().__init__(Run, batch, sizes | derived, BUFFERS, rules=RULE_FLAGS, models=MODEL_FLAGS)
        self.sizes_of_axes = sizes
        self.running[:] = np.arange(self.running.shape[1])
        self.paces["shape"] = -1
        empty_network(self)
        self.due["due_s"] = self.busy["since_s"] = np.inf

    def clear(self, b: int) -> None:
        """Reset the arrays of run ``b`` to their initial values; ``world`` counts the entries of the log's buffers."""
        self.storage[b] = self._initial

    @cached_property
    def _initial(self) -> np.ndarray:
        """Initial content of the memory of a run, uint8 [bytes]."""
        memory: np.ndarray = State(1, self.sizes_of_axes).storage[0]
        return memory


EVENT_BUFFER, GPU_BUFFER = 1024, 1024  # entries of the log that a small cluster has room for at least
_SPARE: Final = 16  # classes and sizes get rows in multiples of this, so that most seeds need equally many
FIRST_SHAPE: Final = len(TIERS_WITH_SLOTS)  # first row of ``paces`` for shapes


def lengths(instance: Instance) -> dict[str, int]:
    """Return the lengths of the arrays' axes for an instance; they depend on nothing else, as snapshots require."""
    cluster, shapes, tables = instance.cluster, instance.shapes, instance.sharing_tables
    types, seats, recovery = len(cluster.gpu_types), cluster.gpus * instance.gpu_jobs, instance.recovery
    return {
        "jobs": len(instance.workload),
        "sizes": -(-len(instance.sizes.gpus) // _SPARE) * _SPARE,
        "nodes": len(cluster.nodes),
        "racks": len(cluster.racks),
        "gpus": cluster.gpus,
        "classes": -(-len(instance.classes) // _SPARE) * _SPARE,
        "types": types,
        "pace_rows": instance.iteration_s.shape[1] if shapes is None else FIRST_SHAPE + shapes.keys.shape[1],
        "seats": seats,
        "sub_batches": 1 if tables is None else tables.sub_steps.shape[1],
        "sharers": 1 if tables is None else len(tables.sub_steps),
        "sharer_types": 1 if tables is None else types,
        "events": EVENT_BUFFER + (8 * seats if instance.tells_rates else 0),
        "latency_jobs": 0 if instance.start_latency_s is None else len(instance.workload),
        "divided_classes": len(instance.classes) if instance.semantics.reshard_s else 0,
        "dividing_jobs": len(instance.workload) if instance.semantics.reshard_s else 0,
        "restarts": 0 if instance.semantics.restart_all_s is None else len(instance.workload),
        "deadline_jobs": 0 if instance.workload.deadline_s is None else len(instance.workload),
        "held_jobs": 0 if instance.holds is None else len(instance.workload),
        "dependents": 0 if instance.holds is None else len(instance.holds.edges),
        "recovering": 0 if recovery is None else len(instance.workload),
        "failures": 0 if recovery is None else len(recovery.fails_after_s),
        "failing_nodes": 0 if recovery is None else len(cluster.nodes),
        **_meter_lengths(instance),
        **_set_lengths(instance),
        **network_sizes(instance),
    }


def _meter_lengths(instance: Instance) -> dict[str, int]:
    """Return the lengths of the axes of the arrays about energy; 0 without energy."""
    lengths = dict.fromkeys(("meters", "series", "meter_types", "states", "meter_nodes"), 0)
    if (energy := instance.energy) is not None:
        types, nodes = len(instance.cluster.gpu_types), len(instance.cluster.nodes)
        lengths |= {"meters": len(METERS), "series": sum(map(len, energy.meters.values())), "states": len(STATES)}
        lengths |= {"meter_types": types, "meter_nodes": nodes}
    return lengths


def _set_lengths(instance: Instance) -> dict[str, int]:
    """Return the lengths of the axes of the arrays about node sets; 0 where every job may use every node."""
    sets, pairs = instance.node_sets, len(instance.choice_class)
    reservations = 0 if sets is None else len(sets.start_s)
    return {
        "choices": pairs,
        "choice_jobs": len(instance.workload) + 1 if pairs else 0,
        "set_classes": 0 if sets is None else len(instance.classes),
        "part_classes": 0 if instance.node_counts is None else len(instance.classes),
        "node_sets": 0 if sets is None else len(sets.belongs),
        "set_nodes": 0 if sets is None else len(instance.cluster.nodes),
        "reservations": reservations,
        "closings": 2 * (reservations + len(instance.capped))
        + (0 if instance.outages is None else 2 * len(instance.outages)),
    }


def longest(instances: Sequence[Instance]) -> dict[str, int]:
    """Return the lengths of axes that suffice for each of the instances."""
    all_lengths = [lengths(instance) for instance in instances]
    return {name: max(one[name] for one in all_lengths) for name in all_lengths[0]}


def allocate(instances: Sequence[Instance], random_seeds: Sequence[int] | None = None) -> State:
    """Allocate one run per problem instance, in its state before time 0.

    Parameters
    ----------
    instances : problem instances, whose sizes may differ; the arrays are as long as the largest instance needs
    random_seeds : seed of the random placement rules of each run
    """
    state = State(len(instances), longest(instances))
    for b, instance in enumerate(instances):
        _fill(state, b, instance, 0 if random_seeds is None else random_seeds[b])
    return state


def refill(state: State, b: int, instance: Instance, random_seed: int) -> None:
    """Reset run ``b`` to another problem instance, before time 0; its arrays must be long enough (:func:`lengths`)."""
    state.clear(b)
    _fill(state, b, instance, random_seed)


def grown(state: State, sizes: dict[str, int]) -> State:
    """Return a copy of a state with longer arrays, in which all runs go on.

    Each array is copied by its shape. So what a run writes lies where its own instance says, never where the end of an
    array would say; the rows that are added are as in an empty state.
    """
    larger = State(state.batch, sizes)
    for name in state.own:
        old = getattr(state, name)
        getattr(larger, name)[tuple(slice(length) for length in old.shape)] = old
    return larger


def _fill(state: State, b: int, instance: Instance, random_seed: int) -> None:
    world, rules, cluster = state.world[b], instance.semantics, instance.cluster
    for name in (
        "round_s", "checkpoint_s", "restore_s", "start_s", "merge_s", "time_limit_s", "slot_s", "least_busy_lambda",
        "step_iterations", "max_copies", "pace_until_lease",
    ):  # fmt: skip
        world[name] = getattr(rules, name)
    world["elastic"], world["resize_s"] = instance.sizes.elastic, rules.resize_cost_s
    if rules.reshard_s:
        world["reshard_s"] = rules.reshard_s
        state.divisions[b, : len(instance.classes)] = instance.divisions
    world["restart_all_s"] = -1.0 if rules.restart_all_s is None else rules.restart_all_s
    world["jobs"], world["gpus"] = len(instance.workload), cluster.gpus
    world["nodes"], world["racks"] = len(cluster.nodes), len(cluster.racks)
    world["types"] = len(cluster.gpu_types)
    world["node_gpus"] = cluster.nodes["gpus"].max()
    world["free_gpus"] = cluster.gpus
    world["timer_s"] = world["closing_s"] = world["eligible_s"] = np.inf
    if instance.node_sets is not None:
        _fill_sets(state, b, instance)
    if state.closings.size:
        _fill_closings(state, b, instance)
    if (counts := instance.node_counts) is not None:
        world["parted"] = len(instance.classes)
        parts = state.parts[b, : len(instance.classes)]
        parts["gpus"], parts["most"] = (column[instance.class_counts] for column in (counts.part, counts.most))
    if instance.energy is not None:
        _fill_meters(state, b, instance)
    if instance.holds is not None:
        _fill_holds(state, b, instance.holds)
    world["random"] = np.random.SeedSequence(random_seed).generate_state(1)[0] or 1
    world["sharing"], world["gpu_jobs"] = instance.sharing is not None, instance.gpu_jobs
    _fill_jobs(state, b, instance)
    if (recovery := instance.recovery) is not None:
        _fill_recovery(state, b, recovery, rules)
    _fill_nodes(state, b, cluster)
    _fill_paces(state, b, instance)
    if instance.topology is not None:
        lay_network(state, b, instance)


def _fill_jobs(state: State, b: int, instance: Instance) -> None:
    for first in range(0, len(instance.workload), _JOBS_TOGETHER):
        part = slice(first, first + _JOBS_TOGETHER)
        jobs, workload = state.jobs[b, : len(instance.workload)][part], instance.workload.jobs[part]
        jobs["arrival_s"] = jobs["last_stop_s"] = workload["arrival_s"]
        jobs["gpus"] = jobs["asked"] = workload["gpus"]
        jobs["iterations"] = jobs["remaining"] = instance.iterations[part]
        jobs["ideal_s"] = instance.ideal_s[part]
        jobs["job_class"] = instance.job_class[part]
        jobs["first_size"] = instance.sizes.first[part]
        jobs["sizes"] = instance.sizes.count[part]
        jobs["replica"] = -1
        jobs["limit_s"] = instance.limit_s[part] if instance.semantics.kill_at_limit else np.inf
        jobs["first_start_s"] = jobs["finish_s"] = np.inf
    if instance.workload.deadline_s is not None:
        state.deadlines[b, : len(instance.workload)] = instance.workload.deadline_s
    if instance.start_latency_s is not None:
        state.world["latencies"][b] = 1
        state.latencies[b, : len(instance.workload)] = instance.start_latency_s
    sizes = state.sizes[b, : len(instance.sizes.gpus)]
    sizes["gpus"], sizes["job_class"] = instance.sizes.gpus, instance.sizes.job_class


def _fill_nodes(state: State, b: int, cluster: Cluster) -> None:
    for name in cluster.nodes.dtype.names or ():
        state.nodes[name][b, : len(cluster.nodes)] = cluster.nodes[name]
    state.nodes["slot_gpus"][b, : len(cluster.nodes)] = cluster.slot_gpus
    for name in cluster.racks.dtype.names or ():
        state.racks[name][b, : len(cluster.racks)] = cluster.racks[name]
    state.free[b, : len(cluster.nodes)] = cluster.nodes["gpus"]
    # No place depends on how long the arrays are: those of a running environment may grow.
    state.free[b, len(cluster.nodes) : len(cluster.nodes) + len(cluster.racks)] = cluster.racks["gpus"]
    state.gpu_node[b, : cluster.gpus] = cluster.node_of_gpu


def _fill_paces(state: State, b: int, instance: Instance) -> None:
    whole_batch = state.sub_batches[b, : len(instance.classes), 0]
    whole_batch["sub_steps"] = instance.passes[:, None]
    whole_batch["compute_share"] = 1.0 / instance.passes[:, None]
    if (shared := instance.sharing_tables) is not None:
        classes, sizes, types = shared.memory.shape
        options = state.sub_batches[b, :classes, :sizes, :types]
        options["sub_steps"] = shared.sub_steps[:, :, None]
        options["compute_share"] = shared.compute_share[:, :, None]
        options["memory"] = shared.memory
        state.interference[b, :classes, :classes, :types] = shared.interference
    classes, tiers, types = instance.iteration_s.shape
    paces = state.paces[b, :classes, :tiers, :types]
    for name in ("iteration_s", "compute_s", "communication_s"):
        paces[name] = getattr(instance, name)
    profiles = instance.classes[:, 0]
    paces["profile"] = profiles[:, None, None]
    for name in ("gradient_bytes", "overlap"):
        paces[name] = instance.workload.profiles.rows[name][profiles][:, None, None]
    paces["measured"] = instance.measured
    if (shapes := instance.shapes) is not None:
        rows = state.paces[b, :classes, FIRST_SHAPE : FIRST_SHAPE + shapes.keys.shape[1], :types]
        rows["shape"] = shapes.keys[:, :, None]
        for name in ("iteration_s", "compute_s", "communication_s"):
            rows[name] = getattr(shapes, name)


def _fill_meters(state: State, b: int, instance: Instance) -> None:
    energy, world = instance.energy, state.world[b]
    assert energy is not None
    world["meters"], world["sleep_after_s"] = len(METERS), energy.sleep_after_s
    world["sleep_w"], world["wake_j"] = energy.sleep_w or 0.0, energy.wake_j
    watts = energy.of_types(instance.cluster)
    state.watts[b, : len(watts), : len(STATES)] = watts
    end = 0
    for meter, name in zip(state.meters[b], METERS, strict=True):
        rows = energy.meters.get(name, np.empty(0, SERIES_DTYPE))
        state.series[b, end : end + len(rows)] = rows
        meter["at"] = end
        meter["end"] = end = end + len(rows)


def _fill_holds(state: State, b: int, told: Holds) -> None:
    state.world[b]["holds"] = 1
    rows = state.holds[b, : len(told.eligible_s)]
    rows["eligible_s"], rows["fails"] = told.eligible_s, told.fails
    for name, column in (("open", "after"), ("dependents", "before")):
        rows[name] = np.bincount(told.edges[column], minlength=len(rows))
    rows["first"] = np.cumsum(rows["dependents"]) - rows["dependents"]
    dependents = state.dependents[b, : len(told.edges)]
    dependents["row"] = told.edges["after"]
    for name in ("kind", "delay_s"):
        dependents[name] = told.edges[name]


def _fill_sets(state: State, b: int, instance: Instance) -> None:
    sets, world = instance.node_sets, state.world[b]
    assert sets is not None
    count, nodes = sets.belongs.shape
    reservations = len(sets.start_s)
    world["node_sets"] = count
    if pairs := len(instance.choice_class):
        choices = sets.choices
        world["choices"] = pairs
        state.first_choice[b, : len(choices.first)] = choices.first
        rows = state.choices[b, :pairs]
        rows["job_class"] = instance.choice_class
        limits = instance.limits_in(choices.job, choices.partition)
        rows["limit_s"] = limits if instance.semantics.kill_at_limit else np.inf
    state.class_set[b, : len(instance.classes)] = instance.class_set
    state.closed[b, :count, :nodes] = ~sets.belongs
    state.reserved[b, :reservations, :nodes] = sets.reserved
    state.barred[b, :reservations, :count] = sets.barred


def _fill_closings(state: State, b: int, instance: Instance) -> None:
    """Lay the beginnings and ends of reservations and outages, by time; outages that never end have no end."""
    times = np.zeros(0, CLOSING_DTYPE)
    if (sets := instance.node_sets) is not None:
        steps = np.where(sets.drains, DRAIN, 1)
        times = np.zeros(2 * len(sets.start_s), CLOSING_DTYPE)
        times["time_s"] = np.concatenate([sets.closes_s(instance.semantics), sets.end_s])
        times["reservation"] = np.tile(np.arange(len(sets.start_s)), 2)
        times["step"] = np.concatenate([steps, -steps])
        times["node"] = -1
    if len(rows := instance.capped):
        both = np.zeros(2 * len(rows), CLOSING_DTYPE)
        both["reservation"] = -1
        both["node"] = np.tile(rows["node"], 2)
        both["time_s"] = np.concatenate([instance.cap_closes_s, rows["end_s"]])
        both["step"] = np.repeat([CAPPED, -CAPPED], len(rows))
        times = np.concatenate([times, both[both["time_s"] < np.inf]])
    if instance.outages is not None:
        rows = instance.outages.rows
        both = np.zeros(2 * len(rows), CLOSING_DTYPE)
        both["reservation"] = -1
        both["node"] = np.tile(rows["node"], 2)
        both["time_s"] = np.concatenate([rows["start_s"], rows["end_s"]])
        lasts = rows["end_s"] > rows["start_s"]
        both["step"] = np.concatenate([lasts, np.full(len(rows), -1)])
        times = np.concatenate(
            [times, both[np.concatenate([np.ones(len(rows), bool), lasts & (rows["end_s"] < np.inf)])]]
        )
    state.closings[b, : len(times)] = np.sort(times, order=["time_s", "step", "reservation", "node"])
    state.world[b]["closings"] = len(times)
    if len(times):
        state.world[b]["closing_s"] = state.closings[b, 0]["time_s"]


def _fill_recovery(state: State, b: int, told: Recovery, rules: Semantics) -> None:
    world, jobs = state.world[b], len(told.cost_s)
    world["recovers"] = 1
    world["detection_s"], world["recovery_s"] = rules.detection_s, rules.recovery_cost_s
    rows = state.recovery[b, :jobs]
    rows["segment_s"], rows["stretch"], rows["attempts_left"] = told.segment_s, told.stretch, told.attempts
    rows["saved"] = state.jobs["remaining"][b, :jobs]
    state.failures[b, : len(told.fails_after_s)] = told.fails_after_s
    fails = told.first[1:] > told.first[:-1]
    rows["fails_s"] = np.inf
    rows["fails_s"][fails] = told.fails_after_s[told.first[:-1][fails]]
    rows["next_failure"], rows["end_of_failures"] = told.first[:-1] + 1, told.first[1:]
