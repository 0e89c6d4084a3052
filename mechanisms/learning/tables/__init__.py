"""Tables in place of numbered points: bins that are public, stumps over them, and votes of stumps."""
