"""Bounded ranges: their rules, the envelope of one, and runs of several."""
