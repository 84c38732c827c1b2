"""Slow, obvious Python references. They share no code with the engine; tests compare the two."""
