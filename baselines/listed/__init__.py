"""The compiled loop of schedulers that are an order of jobs and a walk along it."""
