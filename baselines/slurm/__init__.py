"""Slurm's scheduler: multifactor priority, fair share, backfill, preemption by priority class."""
