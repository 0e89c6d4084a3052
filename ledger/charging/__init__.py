"""How a request becomes a charge: what is asked, what is admitted and reserved, and how each kind of run ends."""
