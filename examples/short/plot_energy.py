"""
Energy and carbon of schedulers
===============================

Three schedulers play the same jobs on 1,024 H100. Electricity is cleaner from 10:00 to 16:00: the numbers are made up.
Machines without jobs sleep after ten minutes.
"""

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from gpusched_env.evaluation import evaluate, print_comparison
from gpusched_env.problem.energy import Energy
from gpusched_env.scenarios import get_scenario

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "carbon.csv")
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time_s", "value"])
        rows.writerow([0, 450])
        for day in range(40):
            rows.writerows([[86_400 * day + 36_000, 150], [86_400 * day + 57_600, 450]])
    energy = Energy(carbon=str(path), sleep_after_s=600.0, sleep_w=20.0)
    scenario = get_scenario("llm-1024-h100-v0").replace(energy=energy)
    results = evaluate(scenario, ["fifo", "srtf", "fifo-easy"], [200_000], progress=False)

print_comparison(results, metrics=("mean_jct_s", "makespan_s", "energy_kwh", "idle_energy_share", "carbon_kg"))

# %%
# The order of the jobs changes the mean JCT more than tenfold, and energy and carbon by less than 4 %.
figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
labels = [result.label for result in results]
for axis, name, title in zip(axes, ("energy_kwh", "carbon_kg"), ("energy [MWh]", "carbon [t]"), strict=True):
    axis.bar(labels, [result.metrics[name] / 1000 for result in results])
    axis.set_title(title)
