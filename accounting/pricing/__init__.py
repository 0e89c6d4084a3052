"""What a composition tree costs: its leaves on their batches, its outcomes, and one rule a node in each currency."""
