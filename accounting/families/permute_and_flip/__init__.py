"""The family permute_and_flip: candidates that are tried in random order, each taken with a chance of its own."""
