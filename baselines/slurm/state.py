"""The arrays of one run under Slurm's rules."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array

NONE, EASY, CONSERVATIVE = range(3)  # backfill
FIRST, MAIN, VICTIMS, CYCLE, FILL, ENDS, OVER = range(7)  # phases: the parts of a decision point
OPEN, KEPT, WITHHELD = range(3)  # nodes: open to all, not to the rest of the main pass, nor to a backfill cycle
FRESH, BEGUN, COMPUTED = range(3)  # ages of the priorities: computed, a period has begun since, factors are computed

RULES_DTYPE: Final = np.dtype(
    [
        # priority
        ("age_weight", "<f8"),
        ("share_weight", "<f8"),
        ("max_age_s", "<f8"),  # [s]
        ("period_s", "<f8"),  # [s] between two computations of all priorities
        ("decay", "<f8"),  # factor of the usage in one period
        ("capped", "<i8"),  # 1 = GPUs or jobs of some tenant or QOS are limited
        ("rule", "<i8"),  # placement rule
        ("divided", "<i8"),  # 1 = there are partitions or reservations
        ("by_node", "<i8"),  # 1 = some jobs demand a number of nodes
        # passes
        ("depth", "<i8"),  # jobs that the main pass looks at
        ("backfill", "<i8"),  # NONE, EASY, CONSERVATIVE
        ("interval_s", "<f8"),  # [s] least time between two backfill cycles
        ("slot_s", "<f8"),  # [s] of a slot of the profile
        ("tests", "<i8"),  # jobs that a cycle looks at
        ("tenant_tests", "<i8"),  # of these, jobs of one tenant; 0 = any number
        ("cycle_starts", "<i8"),  # jobs that a cycle starts; 0 = any number
        ("one_plan", "<i8"),  # 1 = a job of several partitions has at most one plan
        ("least_reserve", "<f8"),  # least priority with a plan
        # preemption
        ("preempts", "<i8"),  # 1 = a job may preempt others
        ("by_list", "<i8"),  # 1 = those that ``preys`` tells; 0 = those of a higher ``ladder``
        ("youngest", "<i8"),  # 1 = the latest starts are preempted first
        ("exempt_s", "<f8"),  # [s] for which a gang runs before it may be preempted
        # state of the queue
        ("phase", "<i8"),
        ("begin", "<i8"),  # first entry in use of ``order``
        ("end", "<i8"),  # entry after the last one in use
        ("seen", "<i8"),  # jobs that have been put into the queue
        ("further", "<i8"),  # entries of the queue beyond one for each job
        ("cycle", "<i8"),  # number of backfill cycles that have begun
        ("starts", "<i8"),  # starts of gangs that the queue knows of
        ("last", "<i8"),  # last entry of ``order`` that may start in the cycle
        ("last_slots", "<i8"),  # slots that its job takes if it starts now
        ("at", "<i8"),  # next entry of ``order`` that a pass looks at
        ("tested", "<i8"),  # jobs that the pass has looked at
        ("started", "<i8"),  # jobs that the cycle has started
        ("entries", "<i8"),  # in use, see nodes.py
        ("open_nodes", "<i8"),  # entries in use
        ("near", "<i8"),  # entries in use
        ("search", "<i8"),  # number of the last search
        ("everywhere", "<i8"),  # 1 = all jobs may use all nodes at all times
        ("victims", "<i8"),  # entries of ``victims`` that are still to be preempted
        ("blocked", "<i8"),  # request for which victims have been chosen; -1 = none
        ("cycle_s", "<f8"),  # [s] time of the last cycle; -inf = none
        ("time_s", "<f8"),  # [s] up to which usage has been counted
        ("period", "<i8"),  # number of the last period that has begun
        ("stale", "<i8"),  # FRESH, BEGUN, COMPUTED
        ("wake_s", "<f8"),  # [s] when to decide at the latest
    ]
)

# plans by node, see nodes.py
SLOT_DTYPE: Final = np.dtype(
    [
        ("frees", "<i4"),  # first entry of GPUs that become free in the slot; -1 = none
        ("books", "<i4"),  # first entry of bookings that begin
        ("ends", "<i4"),  # first entry of bookings that end
    ]
)
ENTRY_DTYPE: Final = np.dtype(
    [
        ("node", "<i4"),
        ("count", "<i4"),  # [GPU] that become free; of a booking, the slot in which it ends
        ("next", "<i4"),  # entry of the same list; -1 = none
        ("begin", "<i4"),  # slot in which the booking begins
        ("before", "<i4"),  # earlier booking of the same node; -1 = none
    ]
)
PLACE_DTYPE: Final = np.dtype(
    [
        ("soon", "<i8"),  # first slot in which the node is booked
        ("met_in", "<i8"),  # number of the last search that has met the node
        ("last_booking", "<i4"),  # entry; -1 = none
        ("have", "<i4"),  # [GPU] free in the slot of the search
        ("barriers", "<i4"),  # reasons why the job cannot use the node there
    ]
)


class SlurmState(Handle):
    """Jobs are named by their rows, tenants by their rows in the tree.

    A *request* is a pair of a job and one of its partitions. The requests of a job follow each other, so that requests
    have the order of jobs. If each job has one partition, they have the same numbers.
    """

    memory = array(RULES_DTYPE)
    free = array(np.int64, "slots")  # [GPU] profile of the free GPUs by time, see profile.py
    least = array(np.int64, "blocks")  # [GPU] fewest free GPUs in each block of slots, see profile.py
    # partitions and reservations, see cells.py
    cells = array(np.int64, "cells", "slots")  # [GPU] profile of the free GPUs of each cell
    cell_of = array(np.int32, "nodes")  # cell of each node
    node_in = array(np.int32, "cells")  # a node of each cell
    within = array(np.int8, "sets", "cells")  # 1 = the cell is in the partition of the set
    unused = array(np.int64, "cells")  # [GPU] free now
    kept = array(np.int8, "cells")  # OPEN; KEPT, WITHHELD = for a job at which the main pass has stopped
    room = array(np.int64, "cells")  # [GPU] that the job may take, scratch
    mine = array(np.int64, "cells")  # cells that the job may use, scratch
    closers = array(np.int32, "cells", "reservations")  # that close the cell to the job, scratch
    closings = array(np.int64, "cells")  # entries in use of ``closers``
    parts = array(np.int64, "cells")  # [GPU] that the job takes, scratch
    holds_cell = array(np.int8, "reservations", "cells")  # 1 = the cell is reserved
    closes_s = array(np.float64, "reservations")  # [s]
    opens_s = array(np.float64, "reservations")  # [s]
    step = array(np.int64, "reservations")  # what ``closed`` of the simulator grows by in between: 1, or DRAIN
    shut_from = array(np.int64, "reservations")  # slots in which the nodes are closed
    shut_until = array(np.int64, "reservations")
    # plans by node, see nodes.py
    first_entry = array(SLOT_DTYPE, "node_slots")
    entries = array(ENTRY_DTYPE, "entries")
    places = array(PLACE_DTYPE, "plan_nodes")
    open_nodes = array(np.int32, "plan_nodes")  # that had free GPUs when the cycle began
    near = array(np.int32, "plan_nodes")  # nodes that the search has met, scratch
    rooms = array(np.int64, "node_gpus")  # [GPU] that the job may use of a node by its free GPUs, scratch
    shut = array(np.int8, "reservations")  # 1 = closes nodes in the slots of the search, scratch
    bound = array(np.int64, "kinds")  # [GPU] that a gang of each class could use when the cycle began
    bound_in = array(np.int64, "kinds")  # the number of that cycle
    row_of = array(np.int32, "requests")  # job of each request
    request = array(np.int32, "jobs_and_end")  # first request of each job, and the end
    runs_as = array(np.int32, "jobs")  # request with which the job started last; its first one if it has not run
    booked = array(np.int64, "jobs")  # number of the last cycle with a plan for the job, if it may have only one
    kinds = array(np.int32, "requests")  # class of the job in the partition
    partition = array(np.int32, "requests")
    stopped = array(np.int64, "partitions")  # 1 = the main pass has met a job of the partition that does not fit
    planned = array(np.int64, "partitions")  # plans of the cycle
    order = array(np.int32, "requests")  # requests of waiting jobs, highest priority first
    scratch = array(np.int32, "requests")
    keys = array(np.float64, "requests")  # lower keys go first: higher class if it may preempt, higher tier
    ladder = array(np.float64, "requests")  # -class or -tier: jobs preempt those of higher numbers, the highest first
    quality = array(np.int32, "requests")  # QOS of the job
    preys = array(np.int8, "qualities", "qualities")  # 1 = jobs of the first QOS may preempt those of the second
    spared = array(np.int8, "requests")  # 1 = the job is never preempted
    grace_s = array(np.float64, "requests")  # [s] for which the job runs on before it is preempted
    ranks = array(np.float64, "requests")  # -priority, a whole number
    fixed = array(np.float64, "requests")  # the part of the priority that does not change
    limit_s = array(np.float64, "requests")  # [s] time limit
    runs_for_s = array(np.float64, "jobs")  # [s] limit of the request ``runs_as``, or until the end of its grace time
    tenant = array(np.int32, "jobs")
    planned_s = array(np.float64, "requests", fill=np.inf)  # [s] start that the last cycle planned; inf = none
    victims = array(np.int32, "replicas")
    # limits, see limits.py
    group = array(np.int32, "jobs")  # group of each job
    first_limit = array(np.int32, "groups_and_end")  # first limit of each group, and the end
    counter = array(np.int32, "limits")
    most = array(np.int64, "limits")  # [GPU] -1 = no limit
    most_jobs = array(np.int64, "limits")  # -1 = no limit
    holds = array(np.int64, "counters")  # [GPU] that the jobs of the counter hold
    runs = array(np.int64, "counters")  # jobs of the counter that hold GPUs
    rate = array(np.int64, "tenants")  # [GPU] that the jobs of a leaf have held since ``time_s``
    recent = array(np.float64, "tenants")  # [GPU s] usage since the last period
    usage = array(np.float64, "tenants")  # [GPU s] decayed usage up to the last period
    factor = array(np.float64, "tenants")  # fair-share factor
    tests = array(np.int64, "tenants")  # jobs of the tenant that the cycle has looked at
