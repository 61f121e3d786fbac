"""Episodes that a scheduler plays through an environment, as a Minari dataset for offline learning."""
