"""What is signed and how: canonical bytes, keys, envelopes, the Merkle tree, its checkpoints, who must see them."""
