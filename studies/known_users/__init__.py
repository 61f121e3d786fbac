"""Logs that tell users and time limits: what is a scheduler worth that learns from the jobs that have ended?"""
