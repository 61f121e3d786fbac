"""Gavel's policies."""
