"""The ledger: what is remembered, signed and kept, and the gate that decides who may spend."""
