"""Servers for tests: they listen on loopback, start on demand and end with the tests."""
