"""How values travel: tables of columns, steps and what they keep for each other, partitions of a trace."""
