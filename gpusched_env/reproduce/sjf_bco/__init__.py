"""Programs of the card of SJF-BCO: 160 ring-all-reduce jobs at once on 10, 15 or 20 servers, and further metrics."""

from gpusched_env.reproduce.sjf_bco.problem import RingAllReduce, measure

__all__ = ["RingAllReduce", "measure"]
