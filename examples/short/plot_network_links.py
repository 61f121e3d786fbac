"""
Which links are busy?
=====================

Jobs that use GPUs in several racks share the uplinks of the racks. ``link_loads`` replays a run and returns the
load of every link at given times.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpusched_env import get_scenario, make_scheduler, simulate
from gpusched_env.evaluation.link_loads import link_loads

instance = get_scenario("leaf-spine-256-v1").instance(200_000)
uplinks = np.flatnonzero([str(name).endswith("spine") for name in instance.links["name"]])
plt.figure(figsize=(8, 3.5))
for rule in ("pack", "random"):
    log = simulate(instance, make_scheduler(f"fifo-skip:placement={rule}"))
    times_s = np.linspace(0, log.events["time_s"].max(), 200)
    share = link_loads(instance, log, times_s)[:, uplinks] / instance.links["capacity"][uplinks]
    plt.plot(times_s / 3600, share.mean(axis=1), label=f"placement {rule}")
plt.xlabel("time [h]")
plt.ylabel("mean load of the rack uplinks")
plt.legend()
plt.tight_layout()
