"""Gavel: policies, and the rounds that carry them out."""
