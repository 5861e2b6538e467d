"""Tables for people: data frames with names and seconds, tables by name for SQL and Arrow."""
