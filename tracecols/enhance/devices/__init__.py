"""Streams of devices: what they execute, who asks for it, and who waits for it."""
