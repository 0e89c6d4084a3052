"""Dominating pairs, one family a module: each gives the transform of its privacy loss, with certified errors."""
