"""Slow, obvious twins of kernels and enhancement, written from the definitions of the thesis and not from the code.

They go through the events of all locations once, in global chronological order (3.1), and keep the state sequences of
chapter 3 as plain Python sets and lists. Loops over events are the point here.
"""
