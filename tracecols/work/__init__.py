"""Execution of work: threads, worker processes, memory, scratch files."""
