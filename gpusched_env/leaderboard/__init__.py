"""The leaderboard: tracks, entries that anyone can check, and their verification."""

from gpusched_env.leaderboard.columns import Table, pack, unpack
from gpusched_env.leaderboard.entry import FORMAT, About, Decisions, Entry, Player, Run
from gpusched_env.leaderboard.entry_files import SUFFIX, parse_entry, read_entry, write_entry

__all__ = [
    "FORMAT",
    "SUFFIX",
    "About",
    "Decisions",
    "Entry",
    "Player",
    "Run",
    "Table",
    "pack",
    "parse_entry",
    "read_entry",
    "unpack",
    "write_entry",
]
