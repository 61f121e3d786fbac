"""Public files by name: their list, and downloads that are verified and can be resumed."""
