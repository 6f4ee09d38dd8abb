"""Bugs planted on purpose, each of which the suite must catch: `python -m tests.mutants [NAME ...]`."""
