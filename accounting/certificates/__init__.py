"""What mechanisms lose that no composition of leaves says: proofs of their own, as numbers."""
