"""Slow, simple reference implementations of kernels and enhancement, written from the definitions of the thesis.

They pass once over the events of all locations in global chronological order (3.1), and keep the state sequences of
chapter 3 as plain Python sets and lists. Loops over events are intended here.
"""
