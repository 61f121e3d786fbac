"""Communication cost of a gang's placement: one registry, one function a model."""

from gpusched_env.network.models import COMMUNICATION_MODELS, Network, communication_s

__all__ = ["COMMUNICATION_MODELS", "Network", "communication_s"]
