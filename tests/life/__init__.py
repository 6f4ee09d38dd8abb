"""A life of a table: every public verb in any order, against rows in plain Python."""
