"""Memory limits in tests: the implementation of the pytest plugin, imported when it is on."""
