"""
Entering the leaderboard
========================

An entry is a file with the decisions of a scheduler. Anyone can replay these decisions, so nobody has to trust
the claimed results. This tutorial makes an entry, verifies it, shows how a false claim is detected, and compares
the entry with the baselines.
"""

# %%
# Choose a track
# --------------
# A track is a problem on which entries compete: a scenario, report seeds, rules, and the metric that is
# scored.

import tempfile
from pathlib import Path

from gpusched_env.leaderboard import TRACKS

for track in TRACKS:
    print(f"{track.name:20} {track.parts}")

# %%
# Make an entry
# -------------
# ``make_entry`` plays the scheduler on the report seeds of the track and records every decision. ``About``
# holds your name and the seeds on which you trained. Nobody can check these statements, and the site says
# so.

from gpusched_env.leaderboard import About, make_entry, write_entry

about = About(
    title="Tiresias with a larger first queue",
    authors="A. Stranger",
    how="Tiresias-L with one threshold at four GPU-hours instead of one.",
    hardware="laptop, a second",
    training_seeds=[],
    link="",
    licence="CC-BY-4.0",
)
entry = make_entry("general-v1", "tiresias:thresholds=14400", about, progress=False)
folder = Path(tempfile.mkdtemp())
write_entry(entry, folder / "larger-queue.entry.xz")
print(f"{len(entry.runs)} runs, {(folder / 'larger-queue.entry.xz').stat().st_size:,} bytes")

# %%
# Verify it
# ---------
# The verifier never runs the scheduler. It replays the decisions and recomputes every metric.

from gpusched_env.leaderboard import read_entry, verify
from gpusched_env.metrics import mean_interval

runs = verify(read_entry(folder / "larger-queue.entry.xz"))
mean = mean_interval([run.metrics["mean_jct_s"] / 3600 for run in runs])
print(f"verified: mean JCT {mean.mean:.2f} ± {mean.half_width:.2f} h")

# %%
# A false claim
# -------------
# Here the mean JCT of the first run is lowered by a tenth. The replay detects this.

import msgspec

from gpusched_env.errors import GpuschedError

first = entry.runs[0]
better = first.metrics | {"mean_jct_s": first.metrics["mean_jct_s"] * 0.9}
forged = msgspec.structs.replace(entry, runs=[msgspec.structs.replace(first, metrics=better), *entry.runs[1:]])
try:
    verify(forged.sealed())
except GpuschedError as error:
    print(error)

# %%
# Compare with the baselines
# --------------------------
# The package contains an entry for each baseline. FIFO has the score 0, and a scheduler that reaches the
# lower bound has the score 1.

from gpusched_env.leaderboard import compared, score
from gpusched_env.leaderboard.baseline_entries import shipped_entries

shipped = {found.player.spec: found for found in shipped_entries("general-v1")}
ours = score(entry.runs, shipped["fifo"].runs, "mean_jct_s")
ratio = compared(entry.runs, shipped["tiresias"].runs, "mean_jct_s")
print(f"score {ours.mean:.3f} [{ours.low:.3f}, {ours.high:.3f}]")
print(f"mean JCT / that of tiresias: {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")

import matplotlib.pyplot as plt

scores = {name: score(found.runs, shipped["fifo"].runs, "mean_jct_s").mean for name, found in shipped.items()}
scores["our entry"] = ours.mean
names = sorted(scores, key=scores.__getitem__)
colours = ["#D55E00" if name == "our entry" else "#56B4E9" for name in names]
plt.figure(figsize=(7, 4.5))
plt.barh(names, [scores[name] for name in names], color=colours)
plt.xlabel("score (0 = FIFO, 1 = lower bound)")
plt.tight_layout()

# %%
# The command line does the same: ``gpusched leaderboard submit`` makes the file, ``gpusched leaderboard
# verify`` verifies it.
