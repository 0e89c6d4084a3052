"""The rules of a ledger, pure: what stands, what an entry does to it, what the gate admits and what comes back."""
