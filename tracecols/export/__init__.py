"""Results for other tools."""
