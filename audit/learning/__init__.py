"""Whether a learner keeps its contract of accuracy: populations to try it on, exact limits of how often it fails."""
