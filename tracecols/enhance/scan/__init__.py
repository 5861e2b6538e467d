"""The pass over the events of each location, and its combined results: call paths, call instances, teams."""
