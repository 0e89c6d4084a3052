"""What somebody declares instead of a law: guarantees, curves, pairs of distributions, ex-post bounds."""
