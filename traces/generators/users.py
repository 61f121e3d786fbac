"""Users who submit the same job again: who submits each drawn job, under which name, and how run times recur.

Templates follow a Chinese restaurant process (D. Aldous, "Exchangeability and related topics", 1985). The first five
numbers of :data:`RECURRENCE` are published or measured (docs/traces.md); the last three, and ``near_s``, were chosen so
that :func:`recurrence` is within .05 of what the logs have. Public logs tell no users: the laws of users are assumed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays, draws
from gpusched_env.traces.generators.calibration import demand_class

MOST_USERS: Final = 100_000
_TENANTS: Final = 11  # virtual clusters, as in Philly
_TRIES: Final = 20  # users who are asked before one submits a gang size other than the last
_WEEK_S: Final = 7 * 86_400.0  # [s] after which a use of a template counts half
_LEAST: Final = 3  # earlier jobs of a key for :func:`recurrence`


class Recurrence(NamedTuple):
    """How jobs recur in a log.

    Attributes
    ----------
    activity : exponent s of Zipf's law: the k-th user submits in proportion to k ** -s
    near_s, together : a job of the same gang size that arrives at most ``near_s`` [s] after another is of the same user
        and template with this probability
    same_gang : probability that a user's next job has the gang size of the last
    sibling : probability that a job repeats the run time of the template's last job, within about 5 %
    sigma : standard deviation of ln(run time) within a template otherwise
    early : probability that a job ends early, after a uniform share of its run time
    """

    activity: float
    near_s: float
    together: float
    same_gang: float
    sibling: float
    sigma: float
    early: float


RECURRENCE: Final = {
    "philly": Recurrence(1.0, 600.0, 0.98, 0.84, 0.50, 0.4, 0.05),
    "helios-venus": Recurrence(1.05, 600.0, 0.70, 0.55, 0.65, 0.4, 0.05),
    "pai": Recurrence(1.2, 10.0, 0.82, 0.55, 0.65, 0.4, 0.05),
}
_LN_2: Final = 0.6931471805599453
JITTER: Final = 0.05  # standard deviation of ln(run time) between siblings


class Submitted(NamedTuple):
    """User and template of each job, int64 [J], numbered from 0, and the run times, float64 [J] [s]."""

    user: np.ndarray
    template: np.ndarray
    duration_s: np.ndarray

    def attributes(self) -> dict[str, np.ndarray]:
        """Return the columns of a workload: users, their virtual clusters, and the templates as names."""
        columns = {"user": self.user, "virtual_cluster": self.user % _TENANTS, "name": self.template}
        return {column: np.char.add(f"{column[0]}", numbers.astype(str)) for column, numbers in columns.items()}


def plant_users(
    rng: np.random.Generator,
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
    law: Recurrence,
    users: int,
    theta: float,
) -> Submitted:
    """Give jobs to users, and their run times to templates. The run times of each demand class stay the same numbers.

    A user opens a new template with probability theta / (theta + jobs of the user), else takes an old one for the gang
    size, with weight = number of its jobs x 2 ** -(age / a week). The template has a median, drawn from the run times
    of its demand class. The wanted run times of a class decide who gets the shortest of its run times, and so on.

    Parameters
    ----------
    drawn : arrivals, ascending [s], gang sizes and run times [s]
    theta : large = names tell nothing

    Raises
    ------
    WorkloadError : a parameter out of range
    """
    arrival_s, gpus, duration_s = drawn
    if not (1 <= users <= MOST_USERS and users % 1 == 0 and 0 < theta < np.inf):
        raise WorkloadError(
            f"users is {users}, theta is {theta}: give a whole number up to {MOST_USERS}, and theta above 0"
        )
    users, jobs, kind = int(users), len(arrival_s), demand_class(gpus)
    activity = np.cumsum(arrays.power(np.arange(1.0, users + 1), -law.activity))
    together = (np.diff(arrival_s, prepend=-np.inf) <= law.near_s) & (np.diff(gpus, prepend=0) == 0)
    together &= rng.random(jobs) < law.together
    of_class = {k: np.flatnonzero(kind == k) for k in np.unique(kind).tolist()}
    firsts = np.flatnonzero(~together)
    user, template = np.empty((2, jobs), np.int64)
    medians: list[float] = []
    book = _Book(users)
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), jobs], strict=True):
        who = book.submitter(rng, activity, int(gpus[first]), law.same_gang)
        which = book.template(rng, who, int(gpus[first]), float(arrival_s[first]), last - first, theta)
        if which == len(medians):
            those = of_class[int(kind[first])]
            medians.append(duration_s[those[int(rng.random() * len(those))]])
        user[first:last], template[first:last] = who, which
    wanted = _wanted(rng, template, arrays.log(np.array(medians)), law)
    found = np.empty(jobs)
    for rows in of_class.values():
        found[rows[np.argsort(wanted[rows], kind="stable")]] = np.sort(duration_s[rows])
    return Submitted(user, template, found)


class _Book:
    """What each user has submitted so far."""

    def __init__(self, users: int) -> None:
        self.last_gang = np.zeros(users, np.int64)
        self.jobs = np.zeros(users, np.int64)
        # (user, gang) -> number, jobs and last use [s] of each template
        self.templates: dict[tuple[int, int], list[list[float]]] = {}
        self.count = 0

    def submitter(self, rng: np.random.Generator, activity: np.ndarray, gang: int, same_gang: float) -> int:
        """Draw who submits a gang; users whose last gang had another size mostly do not."""
        who = 0
        for _ in range(_TRIES):
            who = int(np.searchsorted(activity, rng.random() * activity[-1], side="right"))
            if self.last_gang[who] in (0, gang) or rng.random() >= same_gang:
                break
        self.last_gang[who] = gang
        return who

    def template(self, rng: np.random.Generator, who: int, gang: int, now_s: float, jobs: int, theta: float) -> int:
        """Draw the template of some jobs of a user: a number that is known, or the next one."""
        known = self.templates.setdefault((who, gang), [])
        new = rng.random() * (theta + self.jobs[who]) < theta
        self.jobs[who] += jobs
        if new or not known:
            known.append([self.count, jobs, now_s])
            self.count += 1
            return self.count - 1
        table = np.array(known)
        weights = np.cumsum(table[:, 1] * arrays.exp(-_LN_2 / _WEEK_S * (now_s - table[:, 2])))
        drawn = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
        one = known[min(drawn, len(known) - 1)]  # of templates so old that all weights are 0, the last
        one[1:] = one[1] + jobs, now_s
        return int(one[0])


def recurrence(key: np.ndarray, duration_s: np.ndarray) -> np.ndarray:
    """float64 [3]: share of jobs within 10 %, a factor 2 and a factor 10 of the last submitted job of the same key.

    Jobs whose key has fewer than three earlier jobs do not count. Jobs are in the order of their arrivals.
    """
    order = np.argsort(key, kind="stable")
    same = np.append(False, key[order][1:] == key[order][:-1])
    count = np.arange(len(key)) - np.maximum.accumulate(np.where(same, 0, np.arange(len(key))))
    last, now = duration_s[order][:-1], duration_s[order][1:]
    ratios = (np.maximum(last, now) / np.minimum(last, now))[count[1:] >= _LEAST]
    return np.array([arrays.mean(ratios <= bound) if len(ratios) else np.nan for bound in (1.1, 2.0, 10.0)])


def _wanted(rng: np.random.Generator, template: np.ndarray, medians: np.ndarray, law: Recurrence) -> np.ndarray:
    """Draw ln(run time) of each job by its template."""
    jobs = len(template)
    repeats, noise, early = rng.random(jobs) < law.sibling, draws.normal(rng, jobs), rng.random((2, jobs))
    wanted, last = np.empty(jobs), medians.copy()
    cut = np.where(early[0] < law.early, arrays.log(np.maximum(early[1], 1e-3)), 0.0)
    for job, which in enumerate(template.tolist()):
        known = last[which] if repeats[job] else medians[which]
        last[which] = known + (JITTER if repeats[job] else law.sigma) * noise[job]
        wanted[job] = last[which] + cut[job]
    return wanted
