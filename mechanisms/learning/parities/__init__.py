"""Parities, learned from random parts of the examples."""
