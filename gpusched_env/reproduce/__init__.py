"""Reproductions of the experiments of papers, with the published values beside our values."""

from gpusched_env.reproduce.card import CARDS, Card, Run, load_card
from gpusched_env.reproduce.findings import Finding
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.running import play_card

__all__ = ["CARDS", "Card", "Finding", "Results", "Run", "load_card", "play_card"]
