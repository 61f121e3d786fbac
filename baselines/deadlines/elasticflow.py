"""ElasticFlow: jobs are admitted only if their deadlines can be kept, and spare GPUs go where they cost least."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpusched_env.baselines.deadlines.plans import Clock, Free, Part, Plan, minimum_share
from gpusched_env.baselines.deadlines.slots import TICK_S, Ask, SlotScheduler, change_cost_s
from gpusched_env.portable.keys import rounded_key
from gpusched_env.simulator import ClairvoyantView, ClusterView

Plans = dict[int, Plan]


@dataclass
class ElasticFlow(SlotScheduler):
    """Plan every admitted job with its minimum satisfactory share, in deadline order; refuse jobs that do not fit.

    1. Admission: the old jobs and the arrivals of a slot are planned together. If one of them would miss its deadline,
       all arrivals with deadlines are refused.
    2. Elastic scaling: GPUs that the plans leave free now are granted. Each job is offered its next size until the next
       change of a plan, and is planned anew behind it. The job with the least additional GPU time per GPU gets it.
       Jobs without GPUs come first. This is repeated until no job can use the free GPUs.
    3. Placement: biggest gang first, each on the smallest free block that fits.

    Parameters
    ----------
    slot_s : length of a slot [s]; arrivals and completions within a slot are handled at its end. Scenarios with rounds
        have slots of one round. 0 = every event is handled at once

    Notes
    -----
    Jobs without deadlines, and admitted jobs that can no longer keep their deadlines, only get GPUs in step 2. Plans
    need the remaining work and the speeds of jobs. If these are true, if changes cost no time and if placement does not
    matter, every admitted job keeps its deadline: when the admitted jobs cannot be planned anew, the former plan is
    kept. Choices where the text of the paper was not at hand, or the code differs: spare GPUs in ascending order of
    additional GPU time (the code sorts descending); an offer replans only the job to which it is made; periods with
    equal numbers of free GPUs are one period; the smallest free block (the code: the emptiest shared node); the best
    size is that with the largest rate. If changes cost time, a plan charges each of them with the largest of the costs
    of a start, a restore and a resize, and moves to other GPUs are not planned. An arrival takes O(n sizes p), n = jobs
    and p = periods, and a grant the same.

    References
    ----------
    D. Gu et al., "ElasticFlow: An elastic serverless training platform for distributed deep learning", ASPLOS 2023;
    gudiandian/ElasticFlow, ``ElasticFlow/scheduler`` (Apache-2.0).
    """

    slot_s: float = 60.0
    name = "elasticflow"

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        super().reset(view)
        self._plans: Plans = {}  # of the admitted jobs that will keep their deadlines

    def counts(self, view: ClairvoyantView, now_s: float, jobs: list[Ask], arrivals: set[int]) -> dict[int, int]:
        """Admit, plan and grant."""
        clock = Clock(self._slot_s, change_cost_s(view))
        gpus = view.cluster.gpus
        new = {ask.job for ask in jobs if ask.job in arrivals and ask.deadline_s < math.inf}
        due = sorted(
            (ask for ask in jobs if ask.job in self._plans or ask.job in new), key=lambda ask: (ask.deadline_s, ask.job)
        )
        plans = plan_all(due, Free(now_s, gpus), clock)
        if plans is None and new:
            arrivals -= new
            due = [ask for ask in due if ask.job not in new]
            jobs = [ask for ask in jobs if ask.job not in new]
            plans = plan_all(due, Free(now_s, gpus), clock)
        self._plans = self._kept(due, now_s, gpus, clock) if plans is None else plans
        return self._scale(now_s, jobs, gpus, clock)

    def _kept(self, due: list[Ask], now_s: float, gpus: int, clock: Clock) -> Plans:
        """Keep the former plans of the jobs that finish in time with them; plan the others again, if possible."""
        free, plans = Free(now_s, gpus), {}
        for ask in due:
            plan = followed(ask, self._plans[ask.job], now_s, clock)
            if plan is not None:
                plans[ask.job] = plan
                free.take(plan)
        for ask in due:
            if ask.job not in plans and (again := minimum_share(ask, free, clock)) is not None:
                plans[ask.job] = again
                free.take(again)
        return plans

    def _scale(self, now_s: float, jobs: list[Ask], gpus: int, clock: Clock) -> dict[int, int]:
        """Grant the GPUs that are free now; return the number of GPUs of each job."""
        free = Free(now_s, gpus)
        edges = {math.inf}
        for plan in self._plans.values():
            free.take(plan)
            edges |= {edge for part in plan.parts for edge in (part.start_s, part.end_s) if edge > now_s}
        change_s = min(edges)
        self._change_s = change_s
        counts = {ask.job: self._plans[ask.job].now(now_s) if ask.job in self._plans else 0 for ask in jobs}
        while (spare := free.gpus[0]) > 0:
            best: tuple[tuple[bool, float, int], int, Plan | None] | None = None
            for ask in jobs:
                at = ask.sizes.index(counts[ask.job])
                if at + 1 == len(ask.sizes) or ask.sizes[at + 1] - ask.sizes[at] > spare:
                    continue
                size = ask.sizes[at + 1]
                if ask.job in self._plans:
                    offer = self._offered(ask, at + 1, free, now_s, clock)
                    if offer is None:
                        continue
                    extra = offer.gpu_s - self._plans[ask.job].gpu_s
                else:
                    offer, before = None, ask.sizes[at] * ask.left / ask.rates[at] if at else 0.0
                    extra = size * ask.left / ask.rates[at + 1] - before
                key = (at > 0, rounded_key(extra / (size - ask.sizes[at])), ask.job)
                if best is None or key < best[0]:
                    best = (key, size, offer)
            if best is None:
                break
            (_, _, job), size, offer = best
            if offer is None:
                offer = Plan([Part(now_s, change_s, size - counts[job])], math.inf, math.inf)
            else:
                free.take(self._plans[job], -1)
                self._plans[job] = offer
            free.take(offer)
            counts[job] = size
        return counts

    def _offered(self, ask: Ask, at: int, free: Free, now_s: float, clock: Clock) -> Plan | None:
        """Return the plan of a job that has size number ``at`` until plans change; None = it misses its deadline."""
        size, rate, old, change_s = ask.sizes[at], ask.rates[at], self._plans[ask.job], self._change_s
        first_s = now_s + (clock.cost_s if size != ask.held else ask.delay_s)
        finish_s = first_s + ask.left / rate
        if finish_s <= change_s:
            plan = Plan([Part(now_s, clock.align(finish_s), size)], finish_s, size * (finish_s - now_s))
            return plan if finish_s <= ask.deadline_s else None
        left = ask.left - rate * max(change_s - first_s, 0.0)
        free.take(old, -1)
        rest = minimum_share(
            ask._replace(left=left, held=size, delay_s=max(first_s - change_s, 0.0)), free.after(change_s), clock
        )
        free.take(old)
        if rest is None:
            return None
        parts = [Part(now_s, change_s, size), *rest.parts]
        return Plan(parts, rest.end_s, size * (change_s - now_s) + rest.gpu_s)


def plan_all(asks: list[Ask], free: Free, clock: Clock) -> Plans | None:
    """Plan jobs one after the other; None if one of them would miss its deadline."""
    plans = {}
    for ask in asks:
        plan = minimum_share(ask, free, clock)
        if plan is None:
            return None
        plans[ask.job] = plan
        free.take(plan)
    return plans


def followed(ask: Ask, plan: Plan, now_s: float, clock: Clock) -> Plan | None:
    """Return what is left of a plan now; None if the job would miss its deadline with it."""
    left, held, gpu_s = ask.left, ask.held, 0.0
    parts: list[Part] = []
    for part in plan.parts:
        start_s = max(part.start_s, now_s)
        if part.end_s <= start_s:
            continue
        first_s = start_s + (clock.cost_s if part.gpus != held else ask.delay_s if not parts else 0.0)
        rate = ask.rates[ask.sizes.index(part.gpus)]
        finish_s = first_s + left / rate
        parts.append(Part(start_s, part.end_s, part.gpus))
        if finish_s <= part.end_s + TICK_S:
            if finish_s > ask.deadline_s + TICK_S:
                return None
            parts[-1] = Part(start_s, min(clock.align(finish_s), part.end_s), part.gpus)
            return Plan(parts, finish_s, gpu_s + part.gpus * (finish_s - start_s))
        gpu_s += part.gpus * (part.end_s - start_s)
        left -= rate * max(part.end_s - first_s, 0.0)
        held = part.gpus
    return None
