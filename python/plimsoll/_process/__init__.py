"""The process that is recorded: its arguments, paths, messages and errors."""
