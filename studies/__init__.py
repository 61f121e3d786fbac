"""Studies of this repository, run from a clone: ``python -m studies.NAME``; README.md lists them."""
