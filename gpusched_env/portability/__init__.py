"""A battery of draws, runs and metrics whose digests must be the same on every machine.

``python -m gpusched_env.portability`` plays it, compares the digests with those in ``golden.json``, and says on what
machine it ran: its output is what to send when two machines disagree.
"""
