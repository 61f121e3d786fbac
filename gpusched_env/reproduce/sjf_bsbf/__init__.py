"""SJF-BSBF (a reconstruction): the abstract's claims and a prototype's figures beside ours, by load and xi."""

from gpusched_env.reproduce.sjf_bsbf.card import SjfBsbfCard

__all__ = ["SjfBsbfCard"]
