"""The families of laws, a folder each: what a leaf of it is, costs and shows. `kinds` knows them all, nobody else."""
