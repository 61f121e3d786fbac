"""What the schedulers of tenants share: the tree of tenants, and the waiting jobs of each of its leaves."""
