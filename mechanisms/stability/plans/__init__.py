"""What stable answers promise before anything is spent: records, chunks, how many queries are answered, how well.

Nothing here certifies privacy. `counting` has exact binomial tails, `sample_sizes` what a learner needs.
"""
