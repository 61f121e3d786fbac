"""A sharing index: a linear score says beside which running gangs a waiting job starts."""
