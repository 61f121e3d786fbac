"""Learned schedulers: the network, the training recipe, and a trained agent as a scheduler like any other."""
