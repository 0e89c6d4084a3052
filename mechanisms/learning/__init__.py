"""Learning in private: concepts, samples, what was learned, and the mechanisms that learn it."""
