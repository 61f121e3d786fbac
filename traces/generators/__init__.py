"""Synthetic workloads, their calibrations, and the bounds within which they match the logs."""
