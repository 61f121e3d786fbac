"""Put an agent into the package: measure it on report seeds, and write its card."""
