"""
Tuning delay timers
===================

Under the scheduler Dally, a job waits for a time before it accepts GPUs that are far apart. First it waits for a
placement in one machine, then for one in one rack. How long should it wait? In the environment
``DelayTimers-v0`` Dally schedules the jobs, and the agent sets these delay timers.
"""

# %%
# The environment
# ---------------
# An action has two numbers for each class of gang sizes (numbers of GPUs). The first sets the rack timer,
# which is the wait before a placement over several machines of a rack. The second sets the network timer,
# which is the wait before a placement over several racks. -1 means no wait, and +1 means wait for ever.
# Between these values the scale is logarithmic. The tutorial uses 200 jobs to be short.

import dataclasses

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from gpusched_env import get_scenario
from gpusched_env.metrics import paired_ratio

scenario = get_scenario("dally-poisson-v1:oversubscription=16")
scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=200))
env = gymnasium.make("gpusched_env:gpusched/DelayTimers-v0", scenario=scenario)
print(env.action_space)
print("demand classes [GPU]:", env.unwrapped.timers.classes)


def play(action, seed):
    """Keep the same timers for a whole episode; return the mean JCT [h]."""
    env.reset(seed=seed)
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return info["metrics"]["mean_jct_s"] / 3600


# %%
# A sweep
# -------
# First, all timers have the same value. Each of nine values is tried on five validation seeds.

levels = np.linspace(-1, 1, 9)
validation = range(*scenario.seeds.validation)[:5]
sweep = np.array(
    [[play(np.full(env.action_space.shape, level, np.float32), seed) for seed in validation] for level in levels]
)
best = levels[sweep.mean(1).argmin()]
for level, values in zip(levels, sweep, strict=True):
    print(f"action {level:+.2f}: mean JCT {values.mean():.2f} h")

plt.figure(figsize=(7, 3.5))
plt.plot(levels, sweep, color="#56B4E9", linewidth=0.8)
plt.plot(levels, sweep.mean(1), color="#D55E00", linewidth=2.5)
plt.xlabel("timer (-1 = do not wait, +1 = wait for ever)")
plt.ylabel("mean JCT [h], thin: one seed")
plt.tight_layout()

# %%
# A search
# --------
# The timers need not be equal. A random search tries thirty settings, each near the best one so far, and
# starts from the best equal value. It keeps the setting with the lowest mean JCT on the validation seeds.

rng = np.random.default_rng(0)
action, score = np.full(env.action_space.shape, best, np.float32), sweep.mean(1).min()
for _ in range(30):
    trial = (action + rng.normal(0, 0.4, action.shape)).clip(-1, 1).astype(np.float32)
    value = np.mean([play(trial, seed) for seed in validation])
    if value < score:
        action, score = trial, value
print(f"best setting on validation seeds: {score:.2f} h")

# %%
# The report
# ----------
# The report seeds have not been used so far. The best setting is compared with three schedulers:
# ``dally-no-wait`` never waits, ``dally-fully-consolidated`` waits for ever, and ``dally`` sets its timers by
# the tuner of its authors. A ratio below 1 means that our setting is better.

from gpusched_env.evaluation import by_scheduler, evaluate

report = range(200_000, 200_010)
tuned = [play(action, seed) for seed in report]
rivals = ["dally-no-wait", "dally-fully-consolidated", "dally"]
runs = by_scheduler(evaluate(scenario, rivals, report, progress=False))
for label, of_rival in runs.items():
    ratio = paired_ratio(tuned, [run.metrics["mean_jct_s"] / 3600 for run in of_rival])
    print(f"our setting / {label:26} {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")

# %%
# Here the timers stay the same for a whole episode. The page on delay timers describes a learned tuner that
# changes the timers during an episode. ``python -m studies.delay_timers`` repeats its evaluation.
