"""Noise on the integers: Laplace and Gaussian, with their rules and losses."""
