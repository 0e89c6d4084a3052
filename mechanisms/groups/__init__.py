"""Statistics of groups: whose keys are public, or found in the data and chosen privately."""
