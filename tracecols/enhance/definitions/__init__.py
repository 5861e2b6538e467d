"""What the definitions of a trace say: regions, locations, communicators, topologies, the order of events."""
