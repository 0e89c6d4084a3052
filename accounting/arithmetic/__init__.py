"""Arithmetic with promises: rounded outward, turned into weaker ones, added up, and the prices that a request has."""
