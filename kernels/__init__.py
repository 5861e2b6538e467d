"""Compiled sequential kernels: arrays in, arrays out, one subject per file."""
