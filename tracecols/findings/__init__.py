"""Causes of lost time: the gains of mending single aspects of a run, by replay of the trace."""
