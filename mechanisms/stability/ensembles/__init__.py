"""Models of chunks of private units, and the classes that they vote for."""
