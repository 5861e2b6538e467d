"""An analysis from beginning to end: what it is asked for, and how a trace becomes a severity cube."""
