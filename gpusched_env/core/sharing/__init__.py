"""Jobs that share GPUs: seats, memory, who slows whom, and whom a job should join."""
