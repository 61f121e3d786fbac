"""The rules of the simulation as kernels. This package depends on numpy and numba only."""
