"""Findings: which claims hold, and whether the results are in the bands of the reconstruction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.hadar import published
from gpusched_env.reproduce.hadar.settings import (
    DEFAULT,
    IN_ROUNDS,
    NODES,
    RIVALS,
    SETTINGS,
    SLOTS_S,
    UTILITIES,
    of_slot,
)
from gpusched_env.reproduce.hadar.tables import busier, factor, mixes, ratio, training_share
from gpusched_env.reproduce.results import Results

GAVEL, GAVEL_MAKESPAN = "Gavel, max-min fairness", "Gavel, makespan"
SOONEST = "Hadar, inverse remaining"
MIGRATES = "longest first, migrates"
NEUTRAL, TRAINING = (0.97, 1.03), (0.94, 0.97)
DURATION_BAND, MAKESPAN_BAND = (1.10, 1.35), (1.0, 1.25)
LEAST_JCT_GAIN = 1.2


def all_trends(results: Results) -> list[Finding]:
    """Return every finding."""
    hadar = [finding for setting in SETTINGS for finding in _of_setting(results, setting)]
    return [*hadar, *(f for cluster in NODES for f in of_cluster(results, cluster)), *_of_slots(results)]


def _within(value: float, band: tuple[float, float]) -> bool:
    return bool(band[0] <= value <= band[1])


def _of_setting(results: Results, setting: str) -> Iterator[Finding]:
    duration = {name: ratio(results, "makespan_s", f"Hadar, {name}", DEFAULT, setting).mean() for name in UTILITIES}
    jct = {name: ratio(results, "mean_jct_s", f"Hadar, {name}", DEFAULT, setting).mean() for name in UTILITIES}
    gain = ratio(results, "makespan_s", GAVEL, DEFAULT, setting).mean()
    yield Finding(
        f"Hadar (normalised) takes 1.10 to 1.35 times less in all than Gavel's fairness "
        f"(abstract: {published.DURATION_AGAINST_GAVEL:.2f})",
        setting, _within(gain, DURATION_BAND), f"{gain:.2f}",
    )  # fmt: skip
    behind = ratio(results, "makespan_s", DEFAULT, GAVEL_MAKESPAN, setting).mean()
    yield Finding(
        "Gavel's own makespan policy is at least as short, by up to 1.25", setting, _within(behind, MAKESPAN_BAND),
        f"{behind:.2f}",
    )  # fmt: skip
    best = max(ratio(results, "mean_jct_s", GAVEL, f"Hadar, {name}", setting).mean() for name in UTILITIES)
    yield Finding(
        f"some utility has a mean JCT {published.JCT_AGAINST_GAVEL} times better than Gavel's fairness (abstract)",
        setting, bool(best >= published.JCT_AGAINST_GAVEL), f"best {best:.2f}",
    )  # fmt: skip
    sooner = ratio(results, "mean_jct_s", GAVEL, SOONEST, setting).mean()
    later = ratio(results, "mean_jct_s", GAVEL, DEFAULT, setting).mean()
    yield Finding(
        "inverse remaining has a mean JCT at least 1.2 times better, normalised a worse one", setting,
        bool(sooner >= LEAST_JCT_GAIN and later < 1), f"{sooner:.2f}, {later:.2f}",
    )  # fmt: skip
    yield Finding(
        "utilities: total duration normalised < raw < inverse remaining, mean JCT the other way round", setting,
        bool(1 < duration["raw"] < duration["inverse remaining"] and 1 > jct["raw"] > jct["inverse remaining"]),
        f"1 : {duration['raw']:.2f} : {duration['inverse remaining']:.2f}, "
        f"1 : {jct['raw']:.2f} : {jct['inverse remaining']:.2f}",
    )  # fmt: skip


def of_cluster(results: Results, cluster: str) -> Iterator[Finding]:
    """Findings about HadarE on one cluster."""
    jobs, nodes = mixes(results.where(part="hadare", cluster=cluster)), NODES[cluster]
    setting = f"HadarE, {cluster}"
    claim = published.SAVED_BY_FORKING[cluster]
    for kind in ("migrates", "sticky"):
        saved = {r: [1 - 1 / np.median(factor(results, cluster, m, r)) for m in jobs] for r in RIVALS if kind in r}
        most = max(saved, key=lambda rival: max(saved[rival]))
        at = jobs[int(np.argmax(saved[most]))]
        yield Finding(
            f"forking saves as much as the abstract says (aws 50 %, lab 80 %), over some rival of the kind: {kind}",
            setting, bool(max(saved[most]) >= claim), f"at most {max(saved[most]):.0%}: {most}; jobs: {at}",
        )  # fmt: skip
    for rival in IN_ROUNDS:
        gains = {m: float(np.median(busier(results, cluster, m, rival))) for m in jobs}
        reached = [m for m, gain in gains.items() if gain >= published.UTILISATION_BY_FORKING]
        yield Finding(
            f"HadarE's utilisation is {published.UTILISATION_BY_FORKING} times {rival}'s in some mix (abstract: rival "
            "not named)",
            setting, bool(reached),
            f"{min(gains.values()):.2f} to {max(gains.values()):.2f}; jobs: {', '.join(map(str, reached)) or 'none'}",
        )  # fmt: skip
    shares = [float(np.median(training_share(results, cluster, m))) for m in jobs]
    yield Finding(
        "nodes train for 0.94 to 0.97 of the time, whatever the mix", setting,
        all(_within(share, TRAINING) for share in shares), f"{min(shares):.3f} to {max(shares):.3f}",
    )  # fmt: skip
    full = [float(np.median(factor(results, cluster, m, MIGRATES))) for m in jobs if m >= nodes]
    if full:
        yield Finding(
            "with as many jobs as nodes, it gains nothing over one that migrates, longest first (0.97 to 1.03)",
            setting, all(_within(value, NEUTRAL) for value in full), f"{min(full):.2f} to {max(full):.2f}",
        )  # fmt: skip


def _of_slots(results: Results) -> Iterator[Finding]:
    for m in mixes(results.where(part="slots")):
        spans = {slot_s: results.median("makespan_s", **of_slot(m, slot_s)) for slot_s in SLOTS_S}
        best = min(spans.values())
        setting = f"HadarE, lab, {m} {'job' if m == 1 else 'jobs'}"
        yield Finding(
            "slots of 360 s are within 2 % of the best, those of 90 s at least 8 % longer", setting,
            bool(spans[360] <= 1.02 * best and spans[90] >= 1.08 * best),
            f"{spans[360] / best - 1:+.1%}, {spans[90] / best - 1:+.1%}",
        )  # fmt: skip
