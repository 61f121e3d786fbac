"""The problem that a scheduler is given: jobs, cluster, tenants, limits, dependencies, and the compiled instance."""
