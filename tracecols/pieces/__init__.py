"""A piece of a trace, cut by time or locations, as a trace of its own."""
