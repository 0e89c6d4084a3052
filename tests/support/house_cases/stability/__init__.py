"""What is released where it is stable: charged tests, stable values, votes of many models, labels by them."""
