"""Links of the network: flows, rates and contention."""
