"""Replay: the trace itself re-timed, with other times of its parts; ideal networks, what-if, efficiencies."""
