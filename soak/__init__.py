"""Attacks on the package: extreme numbers, damaged files, killed commands, for a long time."""
