"""SJF-BCO."""
