"""Readers of job logs, one file for each format; the registry is READERS in traces/reading.py."""
