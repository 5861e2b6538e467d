"""Threads: OpenMP constructs, created threads, locks."""
