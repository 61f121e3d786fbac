"""Links: flows, rates, contention."""
