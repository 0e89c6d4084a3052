"""Statistical queries: sums of values of single records, and what is learned by asking for them."""
