"""Themis-lite."""
