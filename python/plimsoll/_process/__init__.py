"""The recorded process: its arguments, paths, messages and errors."""
