"""What readers share: containers, rows, fields, columns, the account of what was kept."""
