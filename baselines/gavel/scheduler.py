"""Gavel: a policy computes the share of time of each job on each GPU type; rounds turn these shares into a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import FINITE, FINITE_OR_0, Range, check
from gpusched_env.baselines.gavel.policies import EQUAL_SHARES, POLICIES, Settings
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import INTERIOR, TIE_BREAKS, interior
from gpusched_env.baselines.gavel.rounds import ALONE, NONE, Rounds
from gpusched_env.baselines.gavel.seats import Seats
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Lease, Preempt, Scheduler, Start, Wait

REFERENCE: Final = "V100"  # represents all types in policies that ignore types; without V100s the first type does
PRICES: Final = {"V100": 0.74, "P100": 0.43, "K80": 0.135}  # [$/h] of one GPU, from the published code
SHUFFLE_STREAM: Final = 5  # seed + 5 seeds the order of types, as in the published code
LEAST_STEPS: Final = 1e-6  # a smaller remainder is a rounding error, and would spoil the scale of the programs
INTERIOR_POLICIES: Final = ("max_min_fairness", "finish_time_fairness", "min_total_duration")
WHOLE: Final = 1e-9  # [steps] a step that lacks less is whole but for rounding
PART: Final = Range(1e-3, 1.0, "a fraction of a round, from 0.001 to 1")
SAME_S: Final = 1e-6  # [s] times that differ by less are equal but for rounding


@dataclass
class Gavel(Scheduler):
    """Heterogeneity-aware scheduling: linear programs over time shares on GPU types, which rounds turn into schedules.

    Models differ in how much faster they run on a newer GPU type. A policy is an optimisation problem. Its solution X
    gives the share of time that each job should have on each GPU type. The objective may be fairness, makespan or
    others. In each round, the jobs that are furthest behind their shares get the GPUs. All GPUs of a gang are of one
    type.

    Parameters
    ----------
    policy : name of a policy in ``docs/gavel.md``, default "max_min_fairness_perf". A policy with the suffix ``_perf``
        is aware of GPU types; with the suffix ``_packed``, pairs of jobs share GPUs
    round_s : length of a round [s], default 360; the next round begins early if all gangs of a round have finished
    resolve_s : minimum time between two resets of the time counters [s], default 1,920
    plan_at : fraction of a round after which the next round is planned, default 1; 0.5 = as Gavel's runtime on real
        clusters does, see Notes
    tie_break : choice among optimal shares. "vertex" (default) = the solution of HiGHS; "two_stage" = of the optimal
        solutions, one with the largest sum of the quantities that were made equal; "interior" = the solution of ECOS,
        as in the published code (in a clone, with the extra ``gavel``)
    gavel_compat : True = plan as the published simulator does, see Notes; default False
    whole_steps : True = in a round, a gang runs only the whole steps that end within the round, at least one, and then
        frees its GPUs; default None = the value of ``gavel_compat``
    bisect : True = "min_total_duration" uses the published search, and with ``tie_break="interior"`` also the published
        solver; default False = one linear program, whose makespan is up to 5 % shorter than that of the search
    equal_share : reference of finish-time fairness. "steps" (default) = the time that the steps so far would have taken
        on an equal share; "age" = the age of the job, and 1 step/s on every type for a policy without ``_perf``, as in
        an earlier version of the published code
    alpha : fraction of the waiting jobs that "allox" considers, default 1
    prices : price of one GPU of each type for an hour, in the order of the cluster's GPU types; default () = the prices
        of the published code
    seed : seed of the order of types for policies that ignore types, and of the draws of "fifo" and "gandiva"; default
        0

    Notes
    -----
    By default, shares are recomputed in each round if jobs have arrived or finished since the last round, and an idle
    system plans at once. docs/gavel.md has the differences with ``gavel_compat``, and which policies then agree with
    the published simulator job by job. Our choices are HiGHS instead of ECOS, one linear program for the makespan, and
    water filling without a Boolean program. A round takes O(M log M) for M jobs in the system. Computing the shares
    takes a linear program of M R variables for R GPU types.

    On a cluster, Gavel's runtime plans the next round when half of the present one is over, and books the time of a
    gang when its lease ends. ``plan_at`` below 1 does the same. At the time of the plan, a running gang has had only a
    part of its round. It therefore comes before gangs with which it would tie at the end of the round, and its lease is
    renewed. Time counts from the end of the restart. A GPU that is free after the plan starts its next gang at once. If
    a job ends after the plan, its GPUs in the next round stay idle until the plan in that round.

    References
    ----------
    D. Narayanan, K. Santhanam, F. Kazhamiaka, A. Phanishayee, M. Zaharia, "Heterogeneity-Aware Cluster Scheduling
    Policies for Deep Learning Workloads", OSDI 2020, sections 4 (policies) and 5 (rounds); stanford-futuredata/gavel,
    scheduler/scheduler.py.
    """

    policy: str = "max_min_fairness_perf"
    round_s: float = 360.0
    resolve_s: float = 1_920.0
    plan_at: float = 1.0
    tie_break: str = "vertex"
    gavel_compat: bool = False
    whole_steps: bool | None = None
    bisect: bool = False
    equal_share: str = "steps"
    alpha: float = 1.0
    prices: tuple[float, ...] = ()
    seed: int = 0

    knows_partitions = False  # it chooses machines itself
    knows_node_counts = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("gavel", self, policy=POLICIES, tie_break=TIE_BREAKS, equal_share=EQUAL_SHARES)
        check("gavel", self, round_s=FINITE, resolve_s=FINITE_OR_0, plan_at=PART)
        if self.tie_break == INTERIOR:
            self._check_interior()
        self._ahead = self.plan_at < 1.0
        if self._ahead and (self.gavel_compat or self.whole_steps or POLICIES[self.policy].packed):
            raise SchedulerError(
                f"gavel: plan_at={self.plan_at:g} is for whole GPUs and continuous work: leave out gavel_compat and "
                "whole_steps, and take a policy that is not packed, or plan_at=1"
            )
        self.needs = ("deadlines",) if "SLOs" in self.policy else ()
        self._leases = self.gavel_compat if self.whole_steps is None else self.whole_steps
        self.clairvoyant = POLICIES[self.policy].reads_work or self.gavel_compat

    def _check_interior(self) -> None:
        if "water_filling" in self.policy or not self.policy.startswith(INTERIOR_POLICIES):
            raise SchedulerError(
                f"gavel: {self.policy} has no tie_break=interior (only {', '.join(INTERIOR_POLICIES)} have it, without "
                "water filling); take vertex or two_stage"
            )
        if not interior().installed():
            raise SchedulerError(
                "gavel: tie_break=interior needs ECOS: pip install ecos (wheels for Python up to 3.12 on x86-64; "
                "elsewhere it needs a C compiler), or take tie_break=vertex or two_stage"
            )

    @property
    def name(self) -> str:
        """``gavel:`` and the name of the policy in Gavel's code."""
        return f"gavel:{self.policy}"

    def reset(self, view: ClusterView) -> None:
        """Begin a run with empty counters and no plan."""
        types = view.cluster.gpu_types
        policy = POLICIES[self.policy]
        if self.prices and len(self.prices) != len(types):
            raise SchedulerError(f"gavel: {len(self.prices)} prices for {len(types)} GPU types ({', '.join(types)})")
        if "cost" in self.policy and not self.prices and not set(types) <= set(PRICES):
            raise SchedulerError(
                f"gavel: not all prices of {', '.join(types)} are known; give them all, such as prices=2/1"
            )
        self._prices = np.array(self.prices or [PRICES.get(name, 1.0) for name in types])
        self._reference = types.index(REFERENCE) if REFERENCE in types else 0
        self._gpus = np.bincount(view.cluster.nodes["gpu_type"], weights=view.cluster.nodes["gpus"]).astype(np.int64)
        tree, leaf = view.simulation.instance.tenancy
        settings = Settings(
            types, self.seed, self.tie_break, self.bisect, self.equal_share, self.alpha, self.gavel_compat,
            leaf, tree.shares,
        )  # fmt: skip
        self._allocate = policy.build(settings)
        if policy.packed and view.residents.shape[0] < 2:
            raise SchedulerError(
                f"{self.name}: no jobs may share GPUs here; take a scenario with sharing, such as "
                "gavel-continuous-v1:sharing=true, or a policy that is not packed"
            )

        def pair_rates(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
            both = [(rows, others), (others, rows)]
            return np.stack([view.type_rates(own) / view.slowdowns(own, other) for own, other in both], axis=1)

        self._rounds = Rounds(
            self._gpus,
            len(view.simulation.instance.workload),
            self.round_s / 2,
            fill=not policy.queue,
            seed=None if policy.aware else self.seed + SHUFFLE_STREAM,
            pair_rates=pair_rates if policy.packed else None,
            fill_by_pairs=not policy.queue and self.gavel_compat,
        )
        self._seats = Seats(view.cluster)
        self.solver_failures = 0
        self._active = np.empty(0, np.int64)
        self._changed = False
        self._last_reset_s = 0.0 if self.gavel_compat else -math.inf
        self._round_end_s = self._plan_s = -math.inf
        self._planned = False  # the next round, before the present one is over
        self._stale = False  # plan_at < 1: shares have changed since the counters were reset
        self._booked_to_s = 0.0  # end of the round before the present one
        self._clock_s = 0.0  # begin of the present round, see _ended_s
        self._due_s: dict[int, float] = {}  # job of the present round -> time at which its leased steps end
        self._partner: dict[int, int] = {}  # job of the present round -> the job that shares its GPUs, both ways
        self._holding: dict[int, float] = {}  # job of the present round -> time since which it holds its GPUs
        self._held: dict[int, tuple[int, tuple[int, ...]]] = {}  # job -> type and GPUs of its last start
        self._pending: list[int] = []  # jobs of the present round whose GPUs are still being checkpointed
        self._ended: list[tuple[int, float, float, int]] = []  # job, begin, end, GPU type: not booked yet

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan a round when the last one is over; within a round only start jobs that could not start at once."""
        now_s = view.now_s
        holding = set(view.running.tolist())
        if self._leases:
            holding -= set(view.lease_ended.tolist())
        self._end([job for job in self._holding if job not in holding], now_s)
        busy = bool(self._holding or self._pending)
        if busy and now_s < self._round_end_s:
            if self._ahead and not self._planned and now_s >= self._plan_s:
                self._planned = self._select(view)
                self._pending = [job for job in self._seats.of_job if job not in self._holding]
            yield from self._start_pending(view)
            yield Wait(self._plan_s if self._ahead and not self._planned else self._round_end_s)
        else:
            yield from self._begin_round(view)

    def _end(self, jobs: Iterable[int], now_s: float) -> None:
        for job in jobs:
            end_s = self._ended_s(job, now_s)
            self._ended.append((job, min(self._holding.pop(job), end_s), end_s, self._held[job][0]))

    def _begin_round(self, view: ClusterView) -> Iterable[Decision]:
        company = self._partner
        if self._planned:
            present = {*view.running.tolist(), *view.waiting.tolist()}
            self._seats.of_job = {job: seat for job, seat in self._seats.of_job.items() if job in present}
            self._planned, self._clock_s = bool(self._seats.of_job), view.now_s
        if not self._planned and not self._select(view):
            return []
        self._planned = False
        self._round_end_s = self._clock_s + self.round_s
        self._plan_s = self._clock_s + self.plan_at * self.round_s
        return self._play(view, company)

    def _select(self, view: ClusterView) -> bool:
        """Book the time of ended tasks, and choose and seat the jobs of the next round; False = there is none."""
        if not self._ahead:
            self._end(list(self._holding), view.now_s)
        last_s = max((task[2] for task in self._ended), default=view.now_s)
        self._clock_s = last_s if abs(last_s - view.now_s) < SAME_S else view.now_s
        self._book()
        self._due_s.clear()
        self._admit(view)
        if not len(self._active):
            self._seats.of_job = {}
            return False
        self._plan(view)
        rows, types = self._chosen()
        if self.gavel_compat and not len(rows) and not self._jobs_to_come(view):
            self._last_reset_s, self._rounds.since_s, self._changed = 0.0, 0.0, True
            self._plan(view)
            rows, types = self._chosen()
            if not len(rows):
                raise self._nothing_runs(view)
        gangs = self._rounds.gangs[rows]
        self._partner = {row: other for row in rows.tolist() if (other := self._rounds.partner(row)) != ALONE}
        nobody = len(view.arrival_s)  # larger than any row
        seated = [at for at, row in enumerate(rows.tolist()) if row < self._partner.get(row, nobody)]
        partner_of = {row: self._partner[row] for row in rows[seated].tolist() if row in self._partner}
        told = (rows[seated].tolist(), types[seated].tolist(), gangs[seated].tolist())
        self._seats.seat(zip(*told, strict=True), partner_of)
        return True

    def _chosen(self) -> tuple[np.ndarray, np.ndarray]:
        """Jobs of the next round, int64 [n], and the GPU type of each."""
        since = {job: max(begin_s, self._last_reset_s) for job, begin_s in self._holding.items()}
        running = [(job, self._held[job][0], max(self._clock_s - s, 0.0)) for job, s in since.items()]
        chosen = self._rounds.choose(self._active, running)
        runs = chosen != NONE
        if self.gavel_compat:
            runs[runs] = self._rounds.ready(self._active[runs])
        return self._active[runs], chosen[runs]

    def _nothing_runs(self, view: ClusterView) -> SchedulerError:
        job = int(self._active[0])
        names = view.cluster.gpu_types
        rates = ", ".join(
            f"{name} ({count} GPUs): {rate:g} steps/s"
            for name, count, rate in zip(names, self._gpus.tolist(), self._rounds.rates[job].tolist(), strict=True)
        )
        return SchedulerError(
            f"{self.name}: {len(self._active)} jobs wait, no GPU is in use, no job will come, and the policy gives no "
            f"job a type on which it can run; the published simulator would loop for ever. The first is job "
            f"{view.job_id[job]} of {view.gpus[job]} GPUs ({rates}); leave it out, or take another policy"
        )

    def _play(self, view: ClusterView, company: dict[int, int]) -> Iterator[Decision]:
        """Preempt jobs that lose their GPUs, start jobs that get some, and wake at the end of the round."""
        now_s, seats = view.now_s, self._seats.of_job
        running = view.running.tolist()
        checkpointing = set(view.running[view.checkpointing].tolist())
        kept = {job for job in running if job not in checkpointing and seats.get(job) == self._held.get(job, ())}
        yield from [Preempt(job) for job in running if job not in kept and job not in checkpointing]
        self._end([job for job in self._holding if job not in kept], now_s)
        self._pending = [job for job in seats if job not in kept]
        for job in kept:
            self._holding.setdefault(job, now_s)
            if self._leases:
                yield self._lease(view, job)
            elif company.get(job) != self._partner.get(job):
                yield Lease(job, math.inf)  # its partner has changed: a new lease updates its rate
        yield from self._start_pending(view)
        if seats:
            yield Wait(self._plan_s if self._ahead else self._round_end_s)

    def _start_pending(self, view: ClusterView) -> Iterator[Decision]:
        """Start the jobs of this round whose GPUs have come free."""
        left = []
        for job in self._pending:
            gpus, partner = self._seats.of_job[job][1], self._partner.get(job, ALONE)
            if partner != ALONE and view.semantics.checkpoint_s > 0 and _others_on(view, gpus, partner):
                left.append(job)  # other jobs are still being checkpointed there
                continue
            yield Start(job, gpus=gpus, share=partner != ALONE)
            if view.refusal:
                left.append(job)
                continue
            again, rules = job in self._held, view.semantics
            load_s = (rules.restore_s if again else rules.start_s) if self._ahead else 0.0
            self._holding[job], self._held[job] = view.now_s + load_s, self._seats.of_job[job]
            if self._leases:
                yield self._lease(view, job)
        self._pending = left

    def _lease(self, view: ClusterView, job: int) -> Lease:
        """Grant the whole steps that end within the round, at least one."""
        rate = self._rounds.rate(job, self._held[job][0])
        at_once = view.now_s - self._clock_s < SAME_S
        begin_s = self._clock_s if at_once else view.now_s
        seconds = self.round_s if at_once else self._round_end_s - begin_s
        steps = max(math.floor(rate * seconds + WHOLE), 1)
        if isinstance(view, ClairvoyantView):
            [whole], [left] = view.iterations(np.array([job])), view.iterations_left(np.array([job]))
            self._due_s[job] = begin_s + min(steps, whole - round(whole - left)) / rate
        return Lease(job, begin_s + steps / rate)

    def _ended_s(self, job: int, now_s: float) -> float:
        """End of a job's task of the round [s]: ``now_s``, or the end of its leased steps if equal up to rounding."""
        due_s = self._due_s.get(job, math.inf)
        return due_s if abs(due_s - now_s) < SAME_S else now_s

    def _book(self) -> None:
        """For each job of the ended round, add the time that the job had on its GPU type to the counters."""
        if not self._ended:
            return
        self._ended.sort(key=lambda task: (-task[2], task[0]))  # as published; it decides the last bits of the sums
        rows, begins_s, ends_s, types = (np.array(column) for column in zip(*self._ended, strict=True))
        self._rounds.book(rows, types, ends_s - (self._booked_to_s if self.gavel_compat else begins_s))
        self._booked_to_s = float(ends_s.max())
        self._ended = []

    def _admit(self, view: ClusterView) -> None:
        """Add new jobs to the rounds, and remove finished ones."""
        active = np.sort(np.concatenate([view.running, view.waiting])).astype(np.int64)
        new = active[:0]
        if len(active) != len(self._active) or (active != self._active).any():
            known = np.isin(active, self._active, assume_unique=True)
            self._rounds.keep(active[known])
            new = active[~known]
        if len(new):
            rates, gangs = view.type_rates(new), view.gpus[new]
            nowhere = ~(rates > 0).any(axis=1)
            if nowhere.any():
                job = int(new[nowhere][0])
                raise SchedulerError(
                    f"{self.name}: job {view.job_id[job]} demands {view.gpus[job]} GPUs, and no GPU type that can run "
                    "it has so many: Gavel runs a gang on one type; leave out such gangs (max_gpus), or add machines"
                )
            self._rounds.admit(new, rates, gangs)
        self._changed |= bool(len(new)) or len(active) != len(self._active)
        self._active = active

    def _plan(self, view: ClusterView) -> None:
        """Recompute shares if anything has changed, and reset the counters if the last reset was long enough ago."""
        due = self._clock_s - self._last_reset_s >= self.resolve_s
        due |= self._last_reset_s == 0.0 and not self._ahead  # a rule of the published simulator
        if not (self._changed or self._stale) or (self.gavel_compat and not due):
            return
        if due and not self._ahead:
            self._reset_counters()
        if self._changed:
            shares = self._allocate(self._problem(view))
            self._changed = shares is None
            if shares is None:
                self.solver_failures += 1
            else:
                self._rounds.plan(shares)
        if due and self._ahead:  # the runtime on a cluster computes new shares first
            self._reset_counters()
        self._stale = self._ahead and not due

    def _reset_counters(self) -> None:
        self._last_reset_s = self._clock_s
        self._rounds.begin_counting(self._clock_s)

    def _problem(self, view: ClusterView) -> Problem:
        rows = self._active
        rates = self._rounds.rates[rows]
        pairs = self._rounds.pairs
        age_s = view.now_s - view.arrival_s[rows]
        weights = view.told("priority_weight", 1.0)[rows]
        if not (weights > 0).all():
            job = rows[int(np.argmin(weights > 0))]
            raise SchedulerError(
                f"{self.name}: job {view.job_id[job]} has no priority_weight above 0; give every job one"
            )
        steps_left, slack_s = np.ones(len(rows)), np.full(len(rows), np.inf)
        if isinstance(view, ClairvoyantView):
            steps_left = np.maximum(view.iterations_left(rows), LEAST_STEPS)
            like = np.where(rates[:, self._reference] > 0, rates[:, self._reference], rates.max(axis=1))
            slo = view.told("slo", -1.0)[rows]
            slack_s = np.where(slo > 0, slo * view.iterations(rows) / like - age_s, np.inf)
        return Problem(
            rates,
            self._rounds.gangs[rows],
            self._gpus,
            weights,
            rows,
            steps_left,
            age_s,
            slack_s,
            self._prices,
            self._reference,
            None if pairs is None else np.searchsorted(rows, pairs[0]),
            None if pairs is None else pairs[1],
            None if pairs is None else view.job_class[rows],
        )

    def _jobs_to_come(self, view: ClusterView) -> bool:
        return isinstance(view, ClairvoyantView) and view.jobs_to_come > 0


def _others_on(view: ClusterView, gpus: tuple[int, ...], partner: int) -> bool:
    return not np.isin(view.residents[:, list(gpus)], (ALONE, partner)).all()
