"""Logs with pseudonyms: what ``gpusched traces pseudonymise`` does, in a clone."""
