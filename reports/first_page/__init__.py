"""The first page of a report: eight questions that a privacy officer asks, each answered in words from the record."""
