"""Limits on memory in tests: the part of the pytest plugin that runs when it is on."""
