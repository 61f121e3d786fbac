"""Synthetic workloads, the calibrations behind them, and the bounds that they meet."""
