"""From counts to bounds: exact one-sided limits of a binomial share, thresholds, and bands for a whole curve."""
