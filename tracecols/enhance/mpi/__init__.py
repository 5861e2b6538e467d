"""MPI: messages, collective operations, windows, files."""
