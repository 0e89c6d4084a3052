"""Tables in place of numbered points: bins that are public, and stumps over them."""
