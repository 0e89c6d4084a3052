"""Ex-post privacy: what a realised privacy loss certifies. Statements and proofs: docs/proofs/ex_post.md."""
