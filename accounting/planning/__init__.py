"""What is asked of the numbers: ways of asking and what they come to, the least noise, the size of an allowance."""
