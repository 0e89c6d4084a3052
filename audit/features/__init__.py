"""What an output may give away: one module a kind of fault, each turning outputs into events that can be counted."""
