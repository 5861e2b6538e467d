"""Simulated programs with their waiting times: traces of any size whose wait states are known beforehand."""
