"""The check of accuracy first: what it asks, how its noise is set, and its tests, one after another."""

from dpledger.mechanisms.refinement.checks.checking import Check, WalkPlan, check_of, rate_check_of

__all__ = ["Check", "WalkPlan", "check_of", "rate_check_of"]
