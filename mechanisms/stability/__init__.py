"""Answers that hardly any neighbour would change: released where a noisy distance to another answer is large."""
