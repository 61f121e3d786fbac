"""Public files by name: the list, verified and resumable downloads."""
