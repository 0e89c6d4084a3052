"""Laplace noise: its rules, its loss, and that of a Poisson sample."""
