"""
Let jobs share GPUs
===================

SJF-BSBF lets two jobs share GPUs if this lowers their mean completion time. SJF-FFS lets them share whenever they
fit. SJF never shares GPUs.
"""

from gpusched_env.evaluation import evaluate, print_comparison

results = evaluate("bsbf-physical-30-v1", ["sjf", "sjf-ffs", "sjf-bsbf"], range(200_000, 200_005), progress=False)
print_comparison(results, metrics=("mean_jct_s", "makespan_s", "mean_queueing_s"))
