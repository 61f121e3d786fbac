"""Parts that readers share: containers, rows, fields, columns, and the report of kept and dropped rows."""
