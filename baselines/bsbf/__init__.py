"""SJF-BSBF and SJF-FFS."""
