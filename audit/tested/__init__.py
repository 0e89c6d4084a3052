"""What is tested: a subject, its claim, and a pair of neighbours."""
