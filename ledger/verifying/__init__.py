"""What anyone with the public key does with a record: verify it, check each claim, take it along as a bundle."""
