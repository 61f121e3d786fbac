"""Parts that readers share: containers, rows, fields, columns, and the report of what was kept."""
