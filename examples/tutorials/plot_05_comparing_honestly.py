"""
Comparing schedulers honestly
=============================

The mean JCT (job completion time) of a scheduler differs more between random workloads than between schedulers.
Two means alone therefore do not show which scheduler is better. This tutorial compares schedulers seed by seed,
computes intervals, and compares the best scheduler with a lower bound.
"""

# %%
# Why one seed says nothing
# -------------------------
# Here the same schedulers play ten seeds of the same scenario. The run times of deep-learning jobs have a
# heavy tail, so a few long jobs determine the mean.

import matplotlib.pyplot as plt
import numpy as np

from gpusched_env.evaluation import by_scheduler, evaluate, print_comparison
from gpusched_env.metrics import mean_interval, paired_ratio

REPORT = range(200_000, 200_010)
names = ["dally", "tiresias-g", "srtf", "tiresias", "random"]
results = evaluate("steady-64-v0", names, REPORT, progress=False)
jct_h = {
    label: np.array([run.metrics["mean_jct_s"] for run in runs]) / 3600 for label, runs in by_scheduler(results).items()
}
print("dally, mean JCT by seed [h]:", *(f"{value:.2f}" for value in jct_h["dally"]))

# %%
# Paired ratios
# -------------
# Each scheduler plays the same seeds. A seed with much work makes all schedulers slow. The ratio of two
# schedulers therefore varies much less from seed to seed than the mean JCT of one scheduler.
# ``paired_ratio`` computes the geometric mean of the ratios and its 95 % interval. If the interval contains
# 1, these seeds do not show a difference.

print(f"{'scheduler':12} {'mean JCT [h]':>20} {'ratio to tiresias':>24}")
ratios = {}
for label, values in jct_h.items():
    mean, ratio = mean_interval(values), paired_ratio(values, jct_h["tiresias"])
    ratios[label] = ratio
    print(
        f"{label:12} {mean.mean:8.2f} ± {mean.half_width:5.2f} {ratio.mean:12.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    )

figure, axes = plt.subplots(figsize=(7, 3))
for row, (_, ratio) in enumerate(ratios.items()):
    axes.plot([ratio.low, ratio.high], [row, row], color="#0072B2", linewidth=3)
    axes.plot(ratio.mean, row, "o", color="#D55E00")
axes.axvline(1, color="grey", linewidth=1)
axes.set_yticks(range(len(ratios)), ratios)
axes.set_xscale("log")
axes.set_xlabel("mean JCT / that of tiresias, 95 % interval over ten seeds")
figure.tight_layout()

# %%
# What is possible
# ----------------
# The column ``x bound`` has the mean JCT divided by a lower bound on the mean JCT of the same seed. No
# scheduler can be below the bound. ``*`` marks schedulers that read true run times. Compare clairvoyant
# schedulers only with each other.

print_comparison(results, metrics=("mean_jct_s", "ratio", "x_bound", "p99_jct_s", "makespan_s", "rho_fair_share"))

# %%
# Which seeds?
# ------------
# A scenario has three ranges of seeds that do not overlap. Train on the seeds of ``train``. Use
# ``validation`` to choose between versions of a scheduler. Use ``report`` once, for the results that you
# publish: if you tune a parameter on report seeds, you have trained on them.

from gpusched_env import get_scenario

seeds = get_scenario("steady-64-v0").seeds
print("train", seeds.train, "validation", seeds.validation, "report", seeds.report)

# %%
# Steady state
# ------------
# An episode begins with an empty cluster and ends when the last job leaves. This scenario has a tracked
# window: only the jobs with arrival ranks 300 to 699 of 800 are measured. Over all jobs, the same schedulers
# differ less, because the first and the last jobs find a cluster that is not full.

everything = evaluate("steady-64-v0", ["tiresias", "dally"], REPORT, window=(0, 800), progress=False)
values = {label: [run.metrics["mean_jct_s"] for run in runs] for label, runs in by_scheduler(everything).items()}
ratio = paired_ratio(values["dally"], values["tiresias"])
print(f"dally / tiresias over all jobs: {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
ratio = paired_ratio(jct_h["dally"], jct_h["tiresias"])
print(f"dally / tiresias in the tracked window: {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
