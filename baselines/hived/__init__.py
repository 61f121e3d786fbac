"""HiveD: tenants own cells of a cluster; buddy allocation guarantees them what they would have in clusters apart."""
