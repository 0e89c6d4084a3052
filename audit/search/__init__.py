"""The search for a pair: families of neighbouring datasets, a screen of all of them, and audits of the worst."""
