"""Code that monitors share: hooks, logs, snapshots, profiler ranges."""
