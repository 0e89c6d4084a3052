"""Exact certificates of mechanisms that learn: pure numbers, no data."""
