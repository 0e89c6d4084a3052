"""What a record comes to: admissions, readings, tables, and what scopes over the same data add up to for one unit."""
