"""The enhanced model of a trace: its steps, run slice by slice, and its tables."""
