"""The observation arrays: their columns, and the kernels that write them."""
