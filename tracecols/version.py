"""The version of tracecols."""

__version__ = "0.1.0"
