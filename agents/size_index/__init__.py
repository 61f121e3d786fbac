"""A size index: few learned weights say which job gets the next GPUs."""
