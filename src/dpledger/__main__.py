"""`python -m dpledger`: the command line."""

from dpledger.cli import app

app()
