"""Slurm's own files as a cluster: ``slurm.conf``, ``gres.conf``, ``topology.conf``, and the tables of its commands."""
