"""Patterns and properties: what is searched for, declared one by one."""
