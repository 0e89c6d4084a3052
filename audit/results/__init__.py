"""What an audit found, in words and in a picture."""
