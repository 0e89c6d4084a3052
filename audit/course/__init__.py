"""The course of an audit: blocks of runs, where they come from, and the journal that keeps them."""
