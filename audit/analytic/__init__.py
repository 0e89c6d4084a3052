"""Audits that run no mechanism: accounts composed again, sensitivities searched for, doubles that are out of reach."""
