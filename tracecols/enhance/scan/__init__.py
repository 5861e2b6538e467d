"""The pass over the events of each location, and what is put together from it: call paths, call instances, teams."""
