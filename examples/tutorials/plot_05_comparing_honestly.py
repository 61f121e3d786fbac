"""
Comparing schedulers honestly
=============================

Two means are not a result. Schedulers differ less than random workloads do, so this tutorial compares them
seed by seed, gives intervals, and asks how far the best of them is from what is possible.
"""

# %%
# Why one seed says nothing
# -------------------------
# The same scheduler on ten draws of the same scenario. Jobs of deep learning have heavy tails: a few long
# jobs decide the mean.

import matplotlib.pyplot as plt
import numpy as np

from gpusched_env.evaluation import by_scheduler, evaluate, print_comparison
from gpusched_env.metrics import mean_interval, paired_ratio

REPORT = range(200_000, 200_010)
names = ["dally", "tiresias", "srtf", "fifo-skip", "las-2d"]
results = evaluate("philly-64-v1", names, REPORT, progress=False)
jct_h = {
    label: np.array([run.metrics["mean_jct_s"] for run in runs]) / 3600 for label, runs in by_scheduler(results).items()
}
print("dally, mean JCT by seed [h]:", *(f"{value:.2f}" for value in jct_h["dally"]))

# %%
# Paired ratios
# -------------
# Each scheduler plays the same seeds. The ratio of two schedulers on one seed varies much less than their
# means over seeds do: what a hard draw does to one, it does to the other. ``paired_ratio`` gives the
# geometric mean of the ratios and its 95 % interval. An interval that contains 1 shows no difference.

print(f"{'scheduler':12} {'mean JCT [h]':>20} {'ratio to tiresias':>24}")
ratios = {}
for label, values in jct_h.items():
    mean, ratio = mean_interval(values), paired_ratio(values, jct_h["tiresias-L"])
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
axes.set_xlabel("mean JCT / that of tiresias-L, 95 % interval over ten seeds")
figure.tight_layout()

# %%
# What is possible
# ----------------
# ``x bound`` divides by a lower bound that no scheduler can beat, on the same seed. ``*`` marks schedulers
# that read true run times: compare them with others of their kind.

print_comparison(results, metrics=("mean_jct_s", "p99_jct_s", "makespan_s", "rho_fair_share"))

# %%
# Which seeds?
# ------------
# A scenario has three ranges of seeds that never overlap. Learn from ``train``, choose between versions on
# ``validation``, and report ``report`` once. Tuning a parameter on report seeds is training on them.

from gpusched_env import get_scenario

seeds = get_scenario("philly-64-v1").seeds
print("train", seeds.train, "validation", seeds.validation, "report", seeds.report)

# %%
# Steady state
# ------------
# An episode begins with an empty cluster and ends when the last job leaves. To measure the busy middle, count
# only jobs of some arrival ranks: here the jobs 100 to 199 of 300.

middle = evaluate("philly-64-v1", ["tiresias", "dally"], REPORT, window=(100, 200), progress=False)
values = {label: [run.metrics["mean_jct_s"] for run in runs] for label, runs in by_scheduler(middle).items()}
ratio = paired_ratio(values["dally"], values["tiresias-L"])
print(f"dally / tiresias-L in the middle: {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
