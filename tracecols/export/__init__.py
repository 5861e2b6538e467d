"""Results for other tools, and results of other tools."""
