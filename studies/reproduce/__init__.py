"""Reproductions of the experiments of papers, with the published values beside our values."""

from studies.reproduce.card import CARDS, Card, Run, load_card
from studies.reproduce.findings import Finding
from studies.reproduce.results import Results
from studies.reproduce.running import play_card

__all__ = ["CARDS", "Card", "Finding", "Results", "Run", "load_card", "play_card"]
