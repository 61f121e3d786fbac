"""SJF-BCO (Yu et al., MobiHoc 2022): 160 ring-all-reduce jobs at once on 10, 15 or 20 servers."""

from gpusched_env.reproduce.sjf_bco.card import SjfBcoCard
from gpusched_env.reproduce.sjf_bco.problem import RingAllReduce

__all__ = ["RingAllReduce", "SjfBcoCard"]
