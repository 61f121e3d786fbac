"""
A scheduler of your own
=======================

A scheduler is a class with one method, ``decide``. The method gets a view of the cluster and yields decisions.
"""

# %%
# Write it
# --------
# Each job has a row number. ``view.waiting`` has the rows of the waiting jobs, and ``view.gpus`` has the
# number of GPUs (the gang size) of each row. ``Start(job, "pack")`` asks the simulator to place the job by
# the placement rule ``pack``. An impossible decision changes nothing, and ``view.refusal`` then has the
# reason.

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
# ``simulate`` returns an event log. ``validate`` checks that the log is a possible schedule: for example,
# no GPU is held by two jobs, and no work is lost.

instance = get_scenario("steady-64-v0").instance(200_000)
log = simulate(instance, SmallestFirst())
validate(instance, log)
print(*log.lines()[:5], sep="\n")

# %%
# Preempt
# -------
# The next scheduler also preempts. If the smallest waiting job does not fit, it preempts the largest
# running job, provided that the waiting job has at most a quarter of its GPUs. A preempted job keeps its
# work and returns to the queue. ``view.refusal`` is empty if the last decision was carried out.


class SmallestFirstPreemptive(SmallestFirst):
    """Preempt large gangs to make room for small ones."""

    def decide(self, view):
        """Start the smallest gangs; preempt the largest one for a gang of at most a quarter of its size."""
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
# All schedulers play the same five report seeds. The table shows means with 95 % intervals.

schedulers = [SmallestFirst(), SmallestFirstPreemptive(), "fifo", "srtf", "tiresias"]
results = evaluate("steady-64-v0", schedulers, range(200_000, 200_005), progress=False)
print_comparison(results, metrics=("mean_jct_s", "p99_jct_s", "preemptions_per_job"))

# %%
# The next picture shows three schedules of one seed.

logs = {name: simulate(instance, make_scheduler(name)) for name in ("fifo", "srtf")}
logs["SmallestFirst"] = log
figure = plot_runs(instance, logs)

# %%
# On the command line, ``--scheduler mine:SmallestFirst`` names a class of ``mine.py``. The page "Extending
# from outside" shows how to register a scheduler under a name of its own.
