"""Shared code of test modules: recorders and generators of programs, damage to files, readers of other tools.

A test module imports from here, from `oracles` and from `conftest`, never from another test module.
"""
