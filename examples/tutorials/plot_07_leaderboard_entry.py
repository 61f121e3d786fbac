"""
Entering the leaderboard
========================

An entry is a file of decisions. Anyone can replay it, so nobody has to trust it. This tutorial makes an
entry, verifies it, shows what happens to a false claim, and builds the leaderboard as a static site.
"""

# %%
# Choose a track
# --------------

import tempfile
from pathlib import Path

from gpusched_env.leaderboard import TRACKS

for track in TRACKS:
    print(f"{track.name:20} {track.parts}")

# %%
# Make an entry
# -------------
# ``make_entry`` plays the scheduler on the report seeds of the track and writes down every decision.
# ``About`` says who you are and which seeds you learned from; nobody can check these words, and the site says
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
write_entry(entry, folder / "larger-queue.json.zst")
print(f"{len(entry.runs)} runs, {(folder / 'larger-queue.json.zst').stat().st_size:,} bytes")

# %%
# Verify it
# ---------
# The verifier never runs the scheduler. It replays the decisions and recomputes every number.

from gpusched_env.leaderboard import read_entry, verify
from gpusched_env.metrics import mean_interval

runs = verify(read_entry(folder / "larger-queue.json.zst"))
mean = mean_interval([run.metrics["mean_jct_s"] / 3600 for run in runs])
print(f"verified: mean JCT {mean.mean:.2f} ± {mean.half_width:.2f} h")

# %%
# A false claim
# -------------
# Someone improves a number of the first run. The replay finds it.

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
# The package ships an entry for each baseline. A score of 0 is that of FIFO, and 1 is the lower bound.

from gpusched_env.leaderboard import compared, score
from gpusched_env.leaderboard.baseline_entries import shipped_entries

shipped = {found.player.name: found for found in map(read_entry, shipped_entries("general-v1"))}
ours = score(entry.runs, shipped["fifo-strict"].runs, "mean_jct_s")
ratio = compared(entry.runs, shipped["tiresias-L"].runs, "mean_jct_s")
print(f"score {ours.mean:.3f} [{ours.low:.3f}, {ours.high:.3f}]")
print(f"mean JCT / that of tiresias: {ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")

import matplotlib.pyplot as plt

scores = {name: score(found.runs, shipped["fifo-strict"].runs, "mean_jct_s").mean for name, found in shipped.items()}
scores["our entry"] = ours.mean
names = sorted(scores, key=scores.__getitem__)
colours = ["#D55E00" if name == "our entry" else "#56B4E9" for name in names]
plt.figure(figsize=(7, 4.5))
plt.barh(names, [scores[name] for name in names], color=colours)
plt.xlabel("score (0 = FIFO, 1 = lower bound)")
plt.tight_layout()

# %%
# On the command line: ``gpusched leaderboard submit`` makes the file, ``gpusched leaderboard verify`` checks
# it, and ``gpusched leaderboard build entries/ --out site/`` builds the pages.
