"""Entries of a track with tenants: the columns by tenant are recomputed, and no other track has them."""

from __future__ import annotations

import pytest
from entry_case import ABOUT, with_run

from gpusched_env.errors import EntryError, MismatchError
from gpusched_env.leaderboard import Entry, Track, get_track, make_entry, verify
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.tracks import scored_first
from gpusched_env.metrics import TENANT_COLUMNS

TRACK = Track("tenants-test", "Tenants", "For tests.", "cohort-256-v0:jobs=60", reports=2)
NAMES = {column.name for column in TENANT_COLUMNS}


@pytest.fixture(scope="module")
def entry() -> Entry:
    return make_entry(TRACK, "kueue-fair", ABOUT, progress=False)


def test_false_claims_about_tenants_are_refused(entry: Entry) -> None:
    claimed = entry.runs[0].metrics
    assert claimed.keys() >= NAMES
    assert all(found.metrics.keys() >= NAMES for found in verify(entry, track=TRACK))
    for name in NAMES:
        with pytest.raises(MismatchError, match=rf"metrics\.{name}: the entry says 0.123"):
            verify(with_run(entry, metrics=claimed | {name: 0.123}), track=TRACK)
    less = {name: value for name, value in claimed.items() if name != "tenant_jain"}
    with pytest.raises(EntryError, match=r"metrics: the names must be .*tenant_jain"):
        verify(with_run(entry, metrics=less), track=TRACK)


def test_only_tracks_with_tenants_have_columns_of_tenants(entry: Entry) -> None:
    assert set(scored_first("mean_jct_s", entry.runs)) >= NAMES
    [plain] = [one for one in shipped_entries("general-v1") if one.player.spec == "fifo"]
    assert not set(scored_first("mean_jct_s", plain.runs)) & NAMES
    false = with_run(plain, metrics=plain.runs[0].metrics | {"tenant_jain": 1.0})
    with pytest.raises(EntryError, match="metrics: the names must be"):
        verify(false, track=get_track("general-v1"))


def test_kueue_never_exceeds_limits_on_the_track_and_schedulers_without_tenants_do() -> None:
    violation = {
        one.player.spec: max(run.metrics["tenant_violation"] for run in one.runs)
        for one in shipped_entries("tenants-v0")
        if one.player.spec.startswith("kueue") or one.player.spec == "fifo"
    }
    assert violation.pop("fifo") > 0
    assert violation == {"kueue": 0.0, "kueue-reclaim": 0.0, "kueue-fair": 0.0}
