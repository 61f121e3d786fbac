"""A test battery of draws, runs and metrics whose digests must be the same on every machine.

``python -m tools.portability`` runs the battery, compares the digests with those in ``golden.json``, and
describes the machine. If two machines disagree, send the output of both.
"""
