"""What the maintainers of the package use, run from a clone: ``python -m tools COMMAND``."""
