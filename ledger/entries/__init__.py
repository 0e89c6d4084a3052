"""What a ledger says: the kinds of bodies, what they are made of, and the place that an entry gives each."""
