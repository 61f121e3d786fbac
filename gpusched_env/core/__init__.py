"""The simulation rules as kernels: numpy and numba only, no Gymnasium, no files, no policies."""
