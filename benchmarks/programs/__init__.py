"""Programs that could have run, and how long they waited: traces of any size whose wait states are known beforehand."""
