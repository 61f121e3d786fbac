"""The entries that come with the package are true: one seed of each is played, the command plays all."""

from pathlib import Path

import pytest

import gpusched_env.leaderboard
from gpusched_env.leaderboard import SUFFIX, get_track, read_entry
from gpusched_env.leaderboard.claims import check_claims
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.leaderboard.verifying import verify_run

FOLDER = Path(gpusched_env.leaderboard.__file__).parent / "baselines"
FILES = sorted(FOLDER.glob(f"*{SUFFIX}"))


def test_they_are_small():
    assert len(FILES) > 10
    assert sum(path.stat().st_size for path in FILES) < 2_000_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(SUFFIX))
def test_they_verify(path):
    entry = read_entry(path)
    track = get_track(entry.track)
    if track.windows is not None and track.absence():
        pytest.skip(track.absence())
    problem = track.problem()
    check_claims(entry, problem)
    run = entry.runs[FILES.index(path) % len(entry.runs)]
    verify_run(entry, run, problem, Budget(), keep_log=False)
