"""Delay scheduling: Dally, and the Tiresias and Gandiva of the same simulator."""
