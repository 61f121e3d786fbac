"""DRF, and YARN's fair and capacity schedulers: the tenant that is furthest below its share comes first."""
