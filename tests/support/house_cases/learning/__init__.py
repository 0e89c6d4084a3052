"""Learners and what they are made of, one family a module."""
