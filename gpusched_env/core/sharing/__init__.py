"""GPU sharing: seats, memory, interference between jobs, and the choice of the jobs to share with."""
