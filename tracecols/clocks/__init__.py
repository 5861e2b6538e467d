"""Correction of clocks: new times that satisfy all clock conditions, by the controlled logical clock."""
