"""The peak of a model before it is trained."""
