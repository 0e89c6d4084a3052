"""The first page of a report: ten questions that a privacy officer asks, each answered in words from the record."""
