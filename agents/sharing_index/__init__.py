"""A sharing index: a key orders all jobs, and a linear score says beside which running gangs a waiting job starts."""
