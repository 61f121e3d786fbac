"""The arrays of a scheduler of tenants, which its kernels read and write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gpusched_env.baselines.list_policies.state import LINE_DTYPE
from gpusched_env.core.handle import Batched, Handle, array
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.tenants import PRIORITY, UNLIMITED, TenantTree

# Policies: who comes first (fair_sharing/orders.py), and the cycles of Kueue (kueue/admission.py), and of Volcano and
# KAI (deserved/cycle.py).
KUEUE, DRF, FAIR, CAPACITY, VOLCANO, KAI = range(6)
# Policies of preemption in a queue and between queues.
NEVER, LOWER, NEWER, ANY = range(4)
NO_LIMIT: Final = 1 << 40  # [GPU]
Rules = Mapping[str, int | float]  # field of QUEUES_DTYPE or TENANT_DTYPE -> value

QUEUES_DTYPE: Final = np.dtype(
    [
        # rules, fixed
        ("policy", "<i8"),  # KUEUE, DRF, FAIR, CAPACITY, VOLCANO or KAI
        ("rule", "<i8"),  # number of the placement rule
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all jobs; Kueue reads that of the tenant
        ("by_share", "<i8"),  # 1 = Kueue's fair sharing
        ("initial", "<i8"),  # 1 = its second strategy (LessThanInitialShare) is on
        ("preempts", "<i8"),  # 1 = jobs may preempt others; computed by :func:`build`
        ("gpus", "<i8"),  # [GPU] of the cluster; computed by :func:`build`
        ("read", "<i8"),  # records of the log buffer that have been followed; -1 = nothing has been counted yet
        ("action", "<i8"),  # NOTHING, START or PREEMPT: the latest decision
        ("job", "<i8"),  # row of its job
        # state of a decision point
        ("point", "<i8"),  # number of the decision point
        ("happened", "<i8"),  # events up to the last decision point
        ("returns", "<i8"),  # :func:`waiting.chances` when all queues were opened
        ("again", "<i8"),  # 1 = some job may find a place at the next decision point, even if no GPUs come free
        ("stopping", "<i8"),  # jobs that are in a checkpoint
        ("claims", "<i8"),  # jobs that claim the GPUs of such jobs at this decision point
        ("claimed_gpus", "<i8"),  # [GPU] their gangs
        ("claiming", "<i8"),  # 1 = jobs with claims of the last decision point are served, before all others
        # state of a cycle of Kueue
        ("stage", "<i8"),
        ("entries", "<i8"),
        ("acted", "<i8"),  # 1 = a job has started, or preempts others, in this cycle
        ("reserved", "<i8"),  # [GPU] ``reserved`` of all tenants
        ("level", "<i8"),  # height of the lowest tenant whose quota the job fits into without the last search's victims
        ("leaf", "<i8"),
        ("targets", "<i8"),
        ("at", "<i8"),
        ("borrowers", "<i8"),  # leaves that borrow; -1 = not counted
        ("searched", "<i8"),  # leaf whose victims ``targets`` holds, as nothing has changed since the search; -1 = none
        ("highest", "<f8"),  # highest share of a tenant under fair sharing; -1 = not computed
        ("spared", "<i8"),  # 1 = the last search has met jobs that may be preempted at the next decision point
        ("search", "<i8"),  # number of searches for victims so far
        ("taken", "<i8"),  # victims of this search, in ``targets``
        ("freed", "<i8"),  # [GPU] that they hold
        ("reclaims", "<i8"),  # 1 = this search takes jobs from other queues of KAI
        ("asks", "<i8"),  # job class for which this search asks the placement rule, too; -1 = none
    ]
)
TENANT_DTYPE: Final = np.dtype(
    [
        # the tree, fixed
        ("parent", "<i8"),
        ("weight", "<f8"),
        ("quota", "<i8"),  # [GPU] of the tenants below it together, or its own if that is more
        ("sub", "<i8"),  # [GPU] its own quota and what the tenants below it lend
        ("guar", "<i8"),  # [GPU] the part of ``sub`` that it does not lend
        ("room", "<i8"),  # [GPU] what the tenants below it could use together, by the quotas, if nobody else used any
        ("height", "<i8"),  # levels of tenants below it; 0 = a leaf
        ("borrow", "<i8"),  # [GPU] beyond ``sub``
        ("most", "<i8"),  # [GPU] cap of ``held``
        ("begin", "<i8"),  # first of its lines
        ("lines", "<i8"),  # number of its lines: one for each gang size, needs and nodes; inner tenants have none
        ("runners", "<i8"),  # first of its entries of ``runners``
        # rules of its jobs, fixed
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks the queue
        ("within", "<i8"),  # NEVER, LOWER, NEWER: which jobs of its own queue a job may preempt
        ("reclaim", "<i8"),  # NEVER, LOWER, ANY: which jobs of other queues
        ("borrows", "<i8"),  # 1 = a job that borrows may preempt jobs of other queues up to ``threshold``
        ("threshold", "<f8"),
        # present state
        ("use", "<i8"),  # [GPU] used of ``sub``; of inner tenants without what the tenants below use of their ``guar``
        ("held", "<i8"),  # [GPU] that its jobs hold
        ("asks", "<i8"),  # [GPU] that its waiting jobs ask for
        ("waiting", "<i8"),  # jobs
        ("open", "<i8"),  # 0 = no waiting job of this leaf can start
        ("kept", "<i8"),  # [GPU] counted in ``use`` and ``held`` for jobs with claims
        ("reserved", "<i8"),  # [GPU] counted in ``use``, in a cycle of Kueue, for the first job, which has to wait
        ("request", "<f8"),  # [GPU] of Volcano and KAI
        ("deserved", "<f8"),  # [GPU]
        ("running", "<i8"),  # jobs of this leaf that run and are in no checkpoint
        ("started_s", "<f8"),  # [s] latest start of one of its jobs
        ("evicted", "<i8"),  # arrivals and completions up to the latest preemption of one of its jobs; -1 = none
        # scratch
        ("line", "<i8"),  # line of the job that asks in this cycle; -1 = none
        ("mode", "<i8"),
        ("borrowing", "<i8"),  # height of the lowest tenant whose quota the job fits into
        ("best", "<i8"),  # leaf below it that comes first; -1 = none
        ("key", "<f8"),
        ("needy", "<i8"),
        ("cursor", "<i8"),
        ("next", "<i8"),  # index in its ``runners`` of the next candidate of a search for victims; -1 = none
        ("later", "<i8"),  # 1 = the second strategy of fair sharing has candidates
    ]
)
OWN_RULES: Final = ("strict", "within", "reclaim", "borrows", "threshold")
PARKED_DTYPE: Final = np.dtype(
    [
        ("row", "<i8"),  # job that found no place; the line is parked while this is its first job
        ("returns", "<i8"),  # :func:`waiting.chances` then
        ("point", "<i8"),  # or: number of the decision point until whose end the line is parked
        ("claims", "<i8"),  # 1 = at that decision point, the job claimed GPUs of jobs in a checkpoint
        ("refused", "<i8"),  # 1 = enough GPUs were free, but no place: victims may help
    ]
)


class Queues(Handle):
    """The tenants, their waiting jobs, and the state of the scheduler."""

    memory = array(QUEUES_DTYPE)
    tenants = array(TENANT_DTYPE, "tenants")
    lines = array(LINE_DTYPE, "lines")  # the waiting jobs of one leaf and equal needs (listed/lines.py)
    parked = array(PARKED_DTYPE, "lines")
    owner = array(np.int32, "lines")  # leaf of each line
    line_of = array(np.int32, "jobs")
    # other resources than GPUs, which only DRF counts
    amounts = array(np.int64, "resources")  # that the cluster has
    needs = array(np.int64, "lines", "resources")  # of a job of the line
    spent = array(np.int64, "tenants", "resources")  # of the running jobs of a tenant
    waiters = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")  # - priority
    ranks = array(np.float64, "jobs")  # 0: jobs of one priority are served in the order of their rows
    # running jobs
    runners = array(np.int32, "jobs")  # of each leaf, the next victim last (queues/runners.py)
    stopping = array(np.int32, "replicas")  # jobs in a checkpoint
    targets = array(np.int32, "replicas")  # victims that a search has found
    candidates = array(np.int32, "tenants")  # leaves that a search under fair sharing has not yet tried
    priorities = array(np.float64, "jobs")
    latest = array(np.float64, "jobs")  # - number of the latest start
    running = array(np.int32, "lines")  # jobs of the line that run and are in no checkpoint
    evicted = array(np.int64, "jobs", fill=-1)  # arrivals and completions up to the latest preemption; -1 = none
    found_in = array(np.int64, "jobs")  # the latest search that has chosen the job as a victim


def subtree_quotas(parent: np.ndarray, quota: np.ndarray, lend: np.ndarray, gpus: int) -> dict[str, np.ndarray]:
    """Return the quotas of a tree of tenants [GPU]: ``quota``, ``sub`` (own, and lent from below), ``guar`` (not lent).

    Parents come before their children, and their quotas include those below. ``lend`` : what others may use; UNLIMITED
    = all. The root owns those of the ``gpus`` that are no tenant's quota, and everybody may borrow them.
    """
    count = len(parent)
    whole, below, lent, sub, guar = (np.zeros(count, np.int64) for _ in range(5))
    for row in range(count - 1, -1, -1):
        whole[row] = max(int(gpus if row == 0 else quota[row]), int(below[row]))
        sub[row] = whole[row] - below[row] + lent[row]
        if row and lend[row] != UNLIMITED:
            guar[row] = max(0, sub[row] - lend[row])
        if row:
            below[parent[row]] += whole[row]
            lent[parent[row]] += sub[row] - guar[row]
    return {"quota": whole, "sub": sub, "guar": guar}


def build(instance: Instance, replicas: int, rules: Rules, own: Sequence[Rules] = ()) -> Queues:
    """Return the arrays at the beginning of a run.

    ``rules`` : the first fields of QUEUES_DTYPE; ``own`` : OWN_RULES of the jobs of each tenant.
    """
    tree, of_job = instance.tenancy
    workload = instance.workload
    jobs, gangs = len(workload), workload.jobs["gpus"]
    tenants = rows_of(tree, instance.cluster.gpus)
    for name in OWN_RULES if own else ():
        tenants[name] = [one.get(name, 0) for one in own]

    needs = instance.needs if rules["policy"] == DRF else np.zeros((jobs, 0), np.int64)
    where = [] if instance.node_rooms is None else [instance.class_set, instance.class_counts]
    examples, line_of, counts = _kinds(of_job, gangs, *needs.T, *(part[instance.job_class] for part in where))
    owner = of_job[examples].astype(np.int32)
    lines = np.zeros(len(examples), LINE_DTYPE)
    lines["gpus"], lines["begin"] = gangs[examples], np.cumsum(counts) - counts
    leaves, first, widths = np.unique(owner, return_index=True, return_counts=True)
    tenants["begin"][leaves], tenants["lines"][leaves] = first, widths
    tenants["runners"][leaves] = lines["begin"][first]  # a leaf never runs more jobs than it has
    _check_sizes(instance, tenants, owner, lines["gpus"], rules["policy"] == KUEUE)

    priorities = workload.told(PRIORITY) if PRIORITY in workload.attributes else np.zeros(jobs)
    memory = np.zeros((), QUEUES_DTYPE)
    for name in QUEUES_DTYPE.names or ():
        memory[name] = rules.get(name, 0)
    memory["preempts"] = (tenants["within"] != NEVER).any() or (tenants["reclaim"] != NEVER).any()
    memory["gpus"] = instance.cluster.gpus
    memory["read"] = memory["asks"] = -1
    amounts = [one.amount for one in instance.tenants.resources] if instance.tenants and needs.shape[1] else []
    sizes = {"tenants": len(tenants), "lines": len(lines), "jobs": jobs, "replicas": replicas}
    sizes["resources"] = len(amounts)
    queues: Queues = Batched(
        Queues,
        1,
        sizes,
        memory=memory,
        tenants=tenants,
        lines=lines,
        owner=owner,
        line_of=line_of.astype(np.int32),
        amounts=np.array(amounts, np.int64),
        needs=np.ascontiguousarray(needs[examples]),
        keys=-priorities,
        priorities=priorities,
    ).handle(0)
    queues.parked["row"] = -1
    return queues


def _kinds(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find rows that are equal in all columns: an example of each kind, ascending, the kind of each row, and counts."""
    kind_of = np.zeros(len(columns[0]), np.int64)
    for column in columns:  # np.unique(axis=1) would take ten times as long
        values, number = np.unique(column, return_inverse=True)
        _, examples, kind_of, counts = np.unique(
            kind_of * len(values) + number, return_index=True, return_inverse=True, return_counts=True
        )
    return examples, kind_of, counts


def rows_of(tree: TenantTree, gpus: int) -> np.ndarray:
    """TENANT_DTYPE [Q]: the tenants of a tree, with their quotas on a cluster of ``gpus`` GPUs."""
    tenants = np.zeros(len(tree.names), TENANT_DTYPE)
    tenants["parent"], tenants["weight"], tenants["line"] = tree.parent, tree.weight, -1
    tenants["evicted"] = -1
    tenants["started_s"] = -math.inf
    for name in ("borrow", "most"):
        values = getattr(tree, name)
        tenants[name] = np.where(values == UNLIMITED, NO_LIMIT, values)
    for name, column in subtree_quotas(tree.parent, tree.quota, tree.lend, gpus).items():
        tenants[name] = column
    tenants["room"] = tenants["sub"]
    for row in range(1, len(tenants)):
        t, above = tenants[row], tenants[tenants["parent"][row]]
        t["room"] = t["guar"] + min(above["room"], t["sub"] - t["guar"] + t["borrow"])
    for row in range(len(tenants) - 1, 0, -1):
        above = tenants[tenants["parent"][row]]
        above["height"] = max(above["height"], tenants[row]["height"] + 1)
    return tenants


def largest_gangs(tenants: np.ndarray, gpus: int, by_quota: bool) -> np.ndarray:
    """int64 [Q] [GPU]: the largest gang of each tenant that a cluster of ``gpus`` GPUs can admit."""
    most = np.minimum(tenants["most"], gpus)
    for row in range(1, len(tenants)):
        most[row] = min(most[row], most[tenants["parent"][row]])
    return np.minimum(most, tenants["room"]) if by_quota else most


def _check_sizes(instance: Instance, tenants: np.ndarray, owner: np.ndarray, gangs: np.ndarray, by_quota: bool) -> None:
    """Refuse gangs that the limits of their tenants never admit; they would wait for ever."""
    names = instance.tenancy[0].names
    most = largest_gangs(tenants, instance.cluster.gpus, by_quota)
    for leaf, gang in zip(owner.tolist(), gangs.tolist(), strict=True):
        if gang > most[leaf]:
            limits = "its quota, borrow and most, and those above it," if by_quota else "its field most, or one above,"
            raise SchedulerError(
                f"tenant {names[leaf]!r}: a job asks for {gang} GPUs, but {limits} allow {most[leaf]} at most: raise "
                "the limit, or leave such jobs out"
            )
