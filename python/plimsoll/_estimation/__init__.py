"""Estimates the peak memory of a model before it is trained."""
