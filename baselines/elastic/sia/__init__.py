"""Sia: elastic jobs on several GPU types, by an integer program over configurations."""
