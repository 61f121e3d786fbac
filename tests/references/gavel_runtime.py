"""The runtime of Gavel on a cluster, for one-GPU jobs on one machine under max-min fairness.

Written from uw-mad-dash/shockwave, scheduler/scheduler.py: ``_begin_round``, ``_mid_round``, ``_end_round``,
``_update_priorities``, ``_reset_time_run_so_far`` and ``_schedule_jobs_on_workers``. It keeps what is special there:

- The next round is chosen in the middle of a round. Time of a lease is booked when the lease ends; to that of a job
  that runs, the time since it began, or since the last reset, is added.
- At a reset the shares are new already, and time of leases that run on is not in the deficits.
- Jobs of the next round start on free GPUs at once, else at the end of the round. A job that has ended keeps its place.

Not in it: what the scheduler does in rounds where nothing runs.
"""

from dataclasses import dataclass, field


@dataclass
class Runtime:
    """One GPU each; ``jobs`` = (arrival, seconds of work, weight), by arrival; so many that no share reaches 1."""

    jobs: list[tuple[float, float, float]]
    gpus: int
    round_s: float
    reset_s: float
    restart_s: float = 0.0
    middle: float = 0.5
    time_s: dict[int, float] = field(default_factory=dict)
    deficit_s: dict[int, float] = field(default_factory=dict)
    events: list[tuple[float, str, int, int]] = field(default_factory=list)

    def run(self, until_s: float) -> list[tuple[float, str, int, int]]:
        """Return (time, "start" or "stop" or "end", job, GPU) before a time, or until nothing runs (``valid_to_s``)."""
        self.left = [work for _, work, _ in self.jobs]
        self.lease: dict[int, tuple[int, float, float]] = {}  # job -> GPU, begin, begin of progress
        self.total_s, self.share, self.known, self.stale = 0.0, {}, set(), False
        self.last_reset_s = None
        plan = self.choose(0.0, {})
        begin_s, self.idle_s = 0.0, float("inf")
        while begin_s < until_s:
            for job, gpu in plan.items():
                if job not in self.lease and self.left[job] > 0:
                    self.start(begin_s, job, gpu)
            if not self.lease or self.idle_s <= begin_s:
                self.idle_s = min(self.idle_s, begin_s)
                break
            middle_s, end_s = begin_s + self.middle * self.round_s, begin_s + self.round_s
            self.advance(middle_s, {})
            following = self.choose(middle_s, plan)
            self.advance(middle_s, following)
            self.advance(end_s, following)
            for job in [job for job in self.lease if following.get(job) != self.lease[job][0]]:
                self.leave(end_s, job, "stop")
            begin_s, plan = end_s, following
        self.valid_to_s = min(until_s, self.idle_s)
        return sorted(event for event in self.events if event[0] < self.valid_to_s)

    def start(self, now_s, job, gpu):
        self.lease[job] = gpu, now_s, now_s + self.restart_s
        self.events.append((now_s, "start", job, gpu))

    def leave(self, now_s, job, how):
        gpu, _, progress_s = self.lease.pop(job)
        got_s = max(now_s - progress_s, 0.0)
        self.left[job] = 0.0 if how == "end" else self.left[job] - got_s
        self.time_s[job] += got_s
        self.total_s += got_s
        self.events.append((now_s, how, job, gpu))

    def advance(self, to_s, following):
        """Let jobs end, and jobs of the next round start on GPUs that are free."""
        while True:
            used = {gpu for gpu, _, _ in self.lease.values()}
            ends = sorted((progress + self.left[job], job) for job, (_, _, progress) in self.lease.items())
            now_s = max((self.now_s, *[begin for _, begin, _ in self.lease.values()])) if self.lease else self.now_s
            for job, gpu in following.items():
                if job not in self.lease and self.left[job] > 0 and gpu not in used:
                    self.start(self.now_s, job, gpu)
                    break
            else:
                if not ends:
                    self.idle_s = min(self.idle_s, self.now_s)
                if not ends or ends[0][0] > to_s:
                    self.now_s = max(now_s, to_s)
                    return
                self.now_s = ends[0][0]
                self.leave(*ends[0], "end")

    def choose(self, now_s, plan):
        """Return the jobs of the next round and their GPUs."""
        self.now_s = now_s
        present = [job for job, (arrival, _, _) in enumerate(self.jobs) if arrival <= now_s and self.left[job] > 0]
        for job in present:
            if job not in self.time_s:
                self.time_s[job], self.deficit_s[job] = self.round_s / 2, 0.0
        if set(present) != self.known:
            self.known, self.stale = set(present), True
            weights = sum(self.jobs[job][2] for job in present)
            self.share = {job: min(1.0, self.gpus * self.jobs[job][2] / weights) for job in present}
        if self.stale and (self.last_reset_s is None or now_s - self.last_reset_s >= self.reset_s):
            for job in present:
                should_s = self.share[job] * (now_s - (self.last_reset_s or 0.0))
                self.deficit_s[job] += should_s - (self.time_s[job] - self.round_s / 2)
                self.time_s[job] = self.round_s / 2
            self.total_s, self.last_reset_s, self.stale = self.round_s / 2 * len(present), now_s, False
        elapsed = {
            job: max(now_s - max(progress, self.last_reset_s), 0.0) for job, (_, _, progress) in self.lease.items()
        }
        total_s = self.total_s + sum(elapsed.values())

        def key(job):
            fraction = (self.time_s[job] + elapsed.get(job, 0.0)) / total_s
            return -self.share[job] / fraction, -self.deficit_s[job], -self.share[job], job

        chosen = sorted(sorted(present, key=key)[: self.gpus])
        places = {job: plan[job] for job in chosen if job in plan}
        free = [gpu for gpu in range(self.gpus) if gpu not in places.values()]
        return places | dict(zip([job for job in chosen if job not in plan], free, strict=False))
