"""Code that monitors share: the watch, logs, snapshots, profiler ranges."""
