"""Certified bounds for compositions: from a list of privacy-loss distributions to intervals for epsilon and delta."""
