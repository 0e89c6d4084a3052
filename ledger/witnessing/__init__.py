"""Witnesses: who keeps the newest head of a ledger, so that a copy of it cannot go on unseen (C2SP tlog-witness)."""
