"""Gandiva-lite."""
