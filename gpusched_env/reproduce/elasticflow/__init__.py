"""ElasticFlow (Gu et al., ASPLOS 2023): deadlines met beside those of other schedulers."""

from gpusched_env.reproduce.elasticflow.card import ElasticFlowCard

__all__ = ["ElasticFlowCard"]
