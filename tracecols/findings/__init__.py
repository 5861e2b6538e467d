"""Causes of lost time: what would be gained if single things of a run were mended, by replay of the trace."""
