"""Schedulers for jobs with deadlines."""
