"""Generators of synthetic workloads, their calibrations on logs, and the bounds within which they match the logs."""
