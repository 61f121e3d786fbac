"""Searches that found the weights of shipped rules, and what bounds them."""
