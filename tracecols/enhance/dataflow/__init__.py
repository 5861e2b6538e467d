"""Data flow of an analysis: tables of columns, steps and their results, partitions of a trace."""
