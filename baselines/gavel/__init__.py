"""Gavel: the policies, and the rounds that turn their results into schedules."""
