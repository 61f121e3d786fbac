"""The environments as other libraries want them."""
