"""Forecasts of the past, and whether they come true."""
