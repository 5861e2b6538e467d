"""Replay: the trace itself re-timed, with other times for what it consists of; ideal networks, what-if,
efficiencies."""
