"""Mechanisms: what runs on data. Typed parameters, a claim, parts to price, and exact noise through one API."""
