"""SJF-BSBF (a reconstruction): claims of the abstract and results of a prototype beside ours, by load and xi."""

from gpusched_env.reproduce.sjf_bsbf.card import SjfBsbfCard

__all__ = ["SjfBsbfCard"]
