"""SJF-BSBF (a reconstruction): the abstract's claims, a prototype's figures, and ours by load and interference."""

from gpusched_env.reproduce.sjf_bsbf.card import SjfBsbfCard

__all__ = ["SjfBsbfCard"]
