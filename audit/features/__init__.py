"""What an output may give away: scores, one maker a kind of fault. `bank` proposes those that past runs suggest."""
