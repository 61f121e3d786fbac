"""Which claims of the abstract and which trends of the reconstruction hold."""

from __future__ import annotations

from collections.abc import Iterator

from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bsbf.bands import TOLERANCE, bands
from gpusched_env.reproduce.sjf_bsbf.published import AGAINST_FFS, AGAINST_PREEMPTIVE, FFS, SJF, TIRESIAS
from gpusched_env.reproduce.sjf_bsbf.settings import BSBF, DRAWN, FIFO, FULL_BATCH, POLICIES, POLLUX, SPANS_S
from gpusched_env.reproduce.sjf_bsbf.tables import Setting, as_percent, reduction, settings, title, values, xis

WELL_BETTER = 0.10


def all_trends(results: Results) -> list[Finding]:
    """Return every finding."""
    setups = settings(results)
    found = [finding for setting in setups if setting[0] != FULL_BATCH for finding in _of(results, setting)]
    if (FULL_BATCH, 30) in setups:
        found.append(_full_batch(results))
    cells = list(bands(results))
    if cells:
        within = sum(band.within for band in cells)
        found.append(Finding(
            f"every figure of the prototype is met within {100 * TOLERANCE:g} points", "all", within == len(cells),
            f"{within} of {len(cells)}",
        ))  # fmt: skip
    return found


def _of(results: Results, setting: Setting) -> Iterator[Finding]:
    known, where, few = xis(results, setting), title(setting), setting[0] in SPANS_S
    gain = {rival: {xi: reduction(results, setting, xi, rival) for xi in known} for rival in (SJF, FFS, TIRESIAS)}

    def told(rival: str) -> str:
        return ", ".join(f"{as_percent(value)} at xi {xi:g}" for xi, value in gain[rival].items())

    low, high = AGAINST_PREEMPTIVE
    yield Finding(
        f"mean JCT {low:.0%} to {high:.0%} below a preemptive scheduler's, here Tiresias, at some xi (abstract)", where,
        any(value >= low for value in gain[TIRESIAS].values()), told(TIRESIAS),
    )  # fmt: skip
    if not few:
        yield Finding(
            "(a) about SJF-FFS at xi 1, within 5 %, and at least 10 % better at xi 2", where,
            abs(gain[FFS][1.0]) <= TOLERANCE and gain[FFS][2.0] >= WELL_BETTER, told(FFS),
        )  # fmt: skip
        yield Finding(
            "(b) better than SJF up to xi 1.25", where, all(gain[SJF][xi] > 0 for xi in known if xi <= 1.25), told(SJF)
        )
        values_ = list(gain[FFS].values())
        yield Finding(
            f"(c) what it gains over SJF-FFS lies on both sides of the abstract's {AGAINST_FFS:.0%}", where,
            min(values_) < AGAINST_FFS <= max(values_), f"{as_percent(min(values_))} to {as_percent(max(values_))}",
        )  # fmt: skip
        means = {name: values(results, "mean_jct_s", setting, known[0], name).mean() for name in POLICIES}
        yield Finding(
            "FIFO has the worst mean JCT of all", where, max(means, key=lambda name: means[name]) == FIFO,
            f"{means[FIFO] / means[TIRESIAS]:.1f} times Tiresias'",
        )  # fmt: skip
    else:
        yield Finding(
            "(d) better than Tiresias on 30 jobs without a heavy tail", where,
            all(value > 0 for value in gain[TIRESIAS].values()), told(TIRESIAS),
        )  # fmt: skip
    if setting[0] in (DRAWN, POLLUX):
        shares = {xi: values(results, "company_share", setting, xi, BSBF).mean() for xi in known}
        falling = list(shares.values())
        yield Finding(
            "the higher xi, the fewer jobs join others", where, falling == sorted(falling, reverse=True),
            ", ".join(f"{share:.0%}" for share in falling),
        )  # fmt: skip


def _full_batch(results: Results) -> Finding:
    setting = (FULL_BATCH, 30)
    xi = xis(results, setting)[0]
    own = values(results, "mean_jct_s", setting, xi, "whole batches only")
    sjf = values(results, "mean_jct_s", setting, xi, SJF)
    return Finding(
        "where every job fills the memory and none accumulates, SJF-BSBF is SJF", FULL_BATCH, bool((own == sjf).all()),
        f"{int((own == sjf).sum())} of {len(own)} draws",
    )  # fmt: skip
