"""Adapters of the environments for other libraries."""
