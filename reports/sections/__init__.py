"""The sections of a report: each module turns one part of a verified ledger into blocks of the model."""
