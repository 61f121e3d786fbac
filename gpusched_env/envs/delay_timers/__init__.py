"""The environment whose actions set delay timers."""
