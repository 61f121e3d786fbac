"""Readers of job logs, one file a format; the registry is READERS in traces/reading.py."""
