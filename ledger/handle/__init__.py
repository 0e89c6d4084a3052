"""A ledger that is open in one process: making and opening it, reading it, and appending behind its end."""
