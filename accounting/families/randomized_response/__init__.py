"""One of k values, the true one likelier: its rules."""
