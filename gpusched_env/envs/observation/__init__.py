"""What agents see: the columns of each array beside the kernels that write them."""
