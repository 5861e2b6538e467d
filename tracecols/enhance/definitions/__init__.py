"""The definitions of a trace: regions, locations, communicators, topologies, and the order of events."""
