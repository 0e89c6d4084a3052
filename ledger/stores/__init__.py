"""Where leaves are kept: one protocol, one module a store."""
