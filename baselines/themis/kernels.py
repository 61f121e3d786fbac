"""Themis-lite as a policy: finish-time fairness, who takes part in an offer of GPUs, in which order, and the leases.

OFFERS ranks the jobs that may get GPUs and chooses those that do, EMITS preempts and starts gangs, LEASES gives each
its lease after its start, and RENEWS renews leases of gangs that keep their GPUs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import PREDICTED, USER, Estimates, claim_of, has_news
from gpusched_env.baselines.list_policies.lines import sort_rows
from gpusched_env.core.driver import ASSIST, BEGINS, LEASE, NOTHING, START, Choice, policy
from gpusched_env.core.events import productive_s, seconds_left
from gpusched_env.core.handle import array, helper, kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.planning import next_of_plan, plan_preemptive
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.portable.keys import rounded_key

OFFERS, EMITS, LEASES, RENEWS = range(4)  # phases of a decision point
# Least run time, and least remaining run time.
LEAST_S: Final = 1e-3  # [s]

OFFER_DTYPE: Final = np.dtype(
    [
        ("asks_all", "<i8"),  # 1 = every waiting job takes part, whatever its size
        ("lease_s", "<f8"),  # [s]
        ("phase", "<i8"),
        ("estimated", "<i8"),  # number of jobs whose run times have been estimated
        ("count", "<i8"),  # number of jobs in ``order``
        ("at", "<i8"),  # index in ``ended`` of the next lease to renew
        # the jobs in the system, as counted at decision points
        ("asked_s", "<f8"),  # [s] time of the latest decision point
        ("load", "<f8"),  # [job s] integral of the number of jobs in the system until then
        ("present", "<i8"),  # number of jobs in the system then
        ("seen", "<i8"),  # number of jobs that had arrived by then
        # the parts of ``order``, and the entries of ``ended``
        ("leased", "<i8"),
        ("ranked", "<i8"),
        ("ended", "<i8"),
    ]
)


class Offer(Estimates):
    """The GPUs on offer and the jobs that want them; jobs are named by their rows.

    ``order`` has the jobs that keep their leases, those of ``ranked``, and jobs in a checkpoint.
    """

    memory = array(OFFER_DTYPE)
    whole_s = array(np.float64, "jobs")  # [s] estimated run time of the whole job on the best placement
    noise = array(np.float64, "jobs")  # estimated / true run time
    seen_s = array(np.float64, "jobs")  # [s] when the job was first seen
    load_before = array(np.float64, "jobs")  # [job s] ``load`` at that time
    keys = array(np.float64, "jobs")
    ended = array(np.int32, "walked")  # jobs whose lease ends now, in the order of their starts
    ranked = array(np.int32, "walked")  # these and the waiting jobs, the largest rho first
    scratch = array(np.int32, "walked")


@helper
def rho_of(sim: Run, offer: Offer, row: int) -> float:
    """Return rho = T_shared / T_ideal of a job if it got its gang on the best placement now.

    T_ideal is the run time on a fair share of the cluster: k times the ideal run time for a gang of k > 1 such shares.
    """
    m = offer.memory
    now_s = sim.world["clock_s"]
    there_s = now_s - offer.seen_s[row]
    contenders = (m["load"] - offer.load_before[row]) / there_s if there_s > 0.0 else float(m["present"])
    job = sim.jobs[row]
    whole_s = offer.whole_s[row]
    if offer.source["estimator"] >= USER:
        had_s = job["service_s"] + productive_s(sim, job["replica"])
        whole_s = claim_of(sim, offer, row, had_s)
        left_s = max(whole_s - had_s, LEAST_S)
    else:
        left_s = max(seconds_left(sim, row) * offer.noise[row], LEAST_S)
    fair_s = max(whole_s, LEAST_S) * max(1.0, job["gpus"] / (sim.world["gpus"] / contenders))
    return (now_s - job["arrival_s"] + left_s) / fair_s


@kernel
def count_jobs(sim: Run, offer: Offer) -> None:
    """Update the integral of the number of jobs in the system."""
    w = sim.world
    m = offer.memory
    m["load"] += m["present"] * (w["clock_s"] - m["asked_s"])
    for number in range(m["seen"], w["entered"]):
        row = entry(sim, number)
        offer.seen_s[row] = w["clock_s"]
        offer.load_before[row] = m["load"]
    m["seen"] = w["entered"]
    m["asked_s"] = w["clock_s"]
    m["present"] = w["entered"] - w["finished"]


@kernel
def rank(sim: Run, offer: Offer, row: int) -> None:
    """Append a job to ``ranked``, and compute its key."""
    offer.keys[row] = -rounded_key(rho_of(sim, offer, row))
    offer.ranked[offer.memory["ranked"]] = row
    offer.memory["ranked"] += 1


@kernel
def keep_first(offer: Offer) -> bool:
    """Return whether all jobs of ``ended`` come before all other jobs of ``ranked``, which follow them there."""
    m = offer.memory
    last = -1
    for i in range(m["ranked"]):
        row = offer.ranked[i]
        key = offer.keys[row]
        if i < m["ended"]:
            if last < 0 or key > offer.keys[last] or (key == offer.keys[last] and row > last):
                last = row
        elif last >= 0 and (key < offer.keys[last] or (key == offer.keys[last] and row < last)):
            return False
    return True


@kernel
def make_offer(sim: Run, offer: Offer) -> int:
    """Find the jobs whose lease ends, and rank them together with the waiting jobs; return the length of ``order``.

    0 = all leases that end are renewed: no waiting gang fits into the GPUs that are free, in a checkpoint or at the end
    of their lease, or none could start now and the jobs whose lease ends come first.
    """
    w = sim.world
    m = offer.memory
    count_jobs(sim, offer)
    m["leased"] = 0
    m["ranked"] = 0
    m["ended"] = 0
    stopping = 0
    budget = w["free_gpus"]
    for i in range(w["running"]):
        r = sim.replicas[sim.running[i]]
        if r["phase"] == CHECKPOINTING:
            offer.scratch[stopping] = r["job"]
            stopping += 1
            budget += r["gpus"]
        elif r["lease_over"]:
            offer.ended[m["ended"]] = r["job"]
            m["ended"] += 1
            budget += r["gpus"]
        else:
            offer.order[m["leased"]] = r["job"]
            m["leased"] += 1
    first = w["first_waiting"]
    smallest = w["gpus"] + 1
    for i in range(first, first + w["waiting"]):
        smallest = min(smallest, sim.jobs[sim.waiting[i]]["gpus"])
    if smallest > budget and not m["asks_all"]:
        return 0
    for i in range(m["ended"]):
        rank(sim, offer, offer.ended[i])
    for i in range(first, first + w["waiting"]):
        if m["asks_all"] or sim.jobs[sim.waiting[i]]["gpus"] <= budget:
            rank(sim, offer, sim.waiting[i])
    if not m["asks_all"] and smallest > w["free_gpus"] and keep_first(offer):
        return 0
    count = m["leased"] + m["ranked"]
    for i in range(stopping):
        offer.order[count + i] = offer.scratch[i]
    sort_rows(offer.ranked, offer.scratch, offer.keys, offer.keys, m["ranked"])
    for i in range(m["ranked"]):
        offer.order[m["leased"] + i] = offer.ranked[i]
    return count + stopping


@helper
def lease_of(sim: Run, choice: Choice, offer: Offer, row: int) -> int:
    """Write the lease of a gang from now on, and return LEASE."""
    choice.made["row"] = row
    choice.made["until_s"] = sim.world["clock_s"] + offer.memory["lease_s"]
    return LEASE


@kernel
def renew(sim: Run, choice: Choice, offer: Offer) -> int:
    """Write the next lease of a gang that keeps its GPUs, and return its kind; NOTHING = no more."""
    m = offer.memory
    while m["at"] < m["ended"]:
        row = offer.ended[m["at"]]
        m["at"] += 1
        number = sim.jobs[row]["replica"]
        if number >= 0 and sim.replicas[number]["lease_over"]:
            return lease_of(sim, choice, offer, row)
    return NOTHING


@policy
@kernel
def next_of_offer(sim: Run, choice: Choice, offer: Offer) -> int:
    """Offer the GPUs that are free or at the end of a lease; renew leases if no job could take over."""
    m = offer.memory
    if choice.made["first"] == BEGINS:
        m["phase"] = OFFERS
        m["at"] = 0
    if m["phase"] == OFFERS:
        news = offer.source["estimator"] == PREDICTED and has_news(sim, offer)
        if news or sim.world["next_arrival"] > m["estimated"]:
            return ASSIST
        m["count"] = make_offer(sim, offer)
        m["phase"] = RENEWS
        if m["count"] > 0:
            plan_preemptive(sim, offer, m["count"])
            m["phase"] = EMITS
    if m["phase"] == LEASES:
        m["phase"] = EMITS
        return lease_of(sim, choice, offer, choice.made["row"])
    if m["phase"] == EMITS:
        kind = next_of_plan(sim, choice, offer, m["count"])
        if kind != NOTHING:
            m["phase"] = LEASES if kind == START else EMITS
            return kind
        m["phase"] = RENEWS
    return renew(sim, choice, offer)
