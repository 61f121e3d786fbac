"""The environment whose actions are delay timers."""
