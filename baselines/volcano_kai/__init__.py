"""Volcano and KAI: schedulers of gangs that compute how many GPUs each queue deserves, and reclaim them."""
