"""The leaderboard: tracks, entries, and the verification of entries, which anyone can repeat."""

from gpusched_env.leaderboard.columns import Table, pack, unpack
from gpusched_env.leaderboard.entry import FORMAT, About, Decisions, Entry, Player, Run
from gpusched_env.leaderboard.entry_files import SUFFIX, parse_entry, read_entry, write_entry
from gpusched_env.leaderboard.recording import Recording, record
from gpusched_env.leaderboard.replaying import replay
from gpusched_env.leaderboard.scoring import compared, score
from gpusched_env.leaderboard.submitting import make_entry
from gpusched_env.leaderboard.tracks import TRACKS, Track, TrackProblem, get_track
from gpusched_env.leaderboard.verifying import verify

__all__ = [
    "FORMAT", "SUFFIX", "TRACKS", "About", "Decisions", "Entry", "Player", "Recording", "Run", "Table", "Track",
    "TrackProblem", "compared", "get_track", "make_entry", "pack", "parse_entry", "read_entry", "record", "replay",
    "score", "unpack", "verify", "write_entry",
]  # fmt: skip
