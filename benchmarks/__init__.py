"""How fast tracecols is: `pytest benchmarks` for one machine over time, `python -m benchmarks` for one table.

Every figure is also given as a ratio to a yardstick measured in the same process (copying the columns in memory, or
pyarrow writing them), because machines and their load differ while ratios hardly do.
"""
