"""Values released where they are stable: no unit near enough decides which."""
