"""Runs, speeds and waits that others measured, beside what the simulator predicts: ``gpusched reproduce testbeds``."""
