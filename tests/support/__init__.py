"""What several test modules share: recorders and generators of programs, damage to files, readers that are not ours.

A test module imports from here, from `oracles` and from `conftest`, never from another test module.
"""
