"""Paraver traces, as Extrae writes them."""
