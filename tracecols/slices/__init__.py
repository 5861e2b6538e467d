"""A trace slice: the events of a time range or of some locations, as a trace of its own."""
