"""Trace formats: one package each; nothing else knows about formats."""
