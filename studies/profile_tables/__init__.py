"""Tables of model profiles from published throughput files: how those of the package were made."""
