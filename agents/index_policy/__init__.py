"""An index policy: a table scores every job, and the jobs with the smallest scores hold the GPUs."""
