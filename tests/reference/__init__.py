"""Slow, obvious Python references for tests. They share no code with the engine."""
