"""
A scheduler of your own
=======================

A scheduler is a class with one method. It gets a view of the cluster and yields decisions.
"""

# %%
# Write it
# --------
# ``view.waiting`` has the rows of the waiting jobs, ``view.gpus`` the gang size of each row. ``Start(job,
# "pack")`` asks the simulator to place the gang by the rule ``pack``. A decision that is impossible changes
# nothing, and ``view.refusal`` says why.

from gpusched_env import Preempt, Scheduler, Start, get_scenario, make_scheduler, simulate
from gpusched_env.evaluation import evaluate, plot_runs, print_comparison
from gpusched_env.metrics import validate


class SmallestFirst(Scheduler):
    """Start the smallest gangs first; skip a gang that does not fit."""

    def decide(self, view):
        """Yield a start for each waiting job, smallest gang first."""
        for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
            yield Start(job, "pack")


# %%
# Play it
# -------
# ``simulate`` returns an event log. ``validate`` checks the physics: no GPU serves two gangs, no work is
# lost.

instance = get_scenario("philly-64-v1").instance(200_000)
log = simulate(instance, SmallestFirst())
validate(instance, log)
print(*log.lines()[:5], sep="\n")

# %%
# Preempt
# -------
# The same idea with preemption: if the smallest waiting gang does not fit, checkpoint the largest running
# gang, unless it is just as small. A preempted job keeps its work and returns to the queue. ``view.refusal``
# is empty if the last decision was carried out.


class SmallestFirstPreemptive(SmallestFirst):
    """Let small gangs displace large ones."""

    def decide(self, view):
        """Start the smallest gangs; make room for one that is at most a quarter of the largest running gang."""
        for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
            yield Start(job, "pack")
            if view.refusal and len(view.running):
                victim = max(view.running, key=lambda row: view.gpus[row])
                if 4 * view.gpus[job] <= view.gpus[victim]:
                    yield Preempt(victim)
                return


# %%
# Compare
# -------
# Five report seeds, the same for every scheduler. The table shows means with 95 % intervals.

schedulers = [SmallestFirst(), SmallestFirstPreemptive(), "fifo", "srtf", "tiresias"]
results = evaluate("philly-64-v1", schedulers, range(200_000, 200_005), progress=False)
print_comparison(results, metrics=("mean_jct_s", "p99_jct_s", "preemptions_per_job"))

# %%
# And a picture of one seed.

logs = {name: simulate(instance, make_scheduler(name)) for name in ("fifo", "srtf")}
logs["SmallestFirst"] = log
figure = plot_runs(instance, logs)

# %%
# From the command line, a class in ``mine.py`` is ``--scheduler mine:SmallestFirst``. The page on extending
# the suite registers it under a name, with parameters.
