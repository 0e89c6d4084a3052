"""Mechanisms as people write them, f(data, rng) -> output, each beside what is easily got wrong in it."""
