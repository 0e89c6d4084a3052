"""Learners whose unit is a user with many examples: what counts is how many users err often, not how often they err."""
