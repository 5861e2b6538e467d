"""Streams of devices: their operations, the calls that launch them, and the calls that wait for them."""
