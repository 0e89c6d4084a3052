"""Gaussian noise: its rules, its loss, and those of Poisson samples, one by one and in rows."""
