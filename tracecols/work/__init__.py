"""Who does the work and where: threads, worker processes, memory, scratch files."""
