"""Access to tables by name, for SQL, Arrow and data frames."""
