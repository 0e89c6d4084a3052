"""Learners for users who hold several examples each: a whole user is what is protected."""
