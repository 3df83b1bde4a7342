"""Where it runs: processes, progress, and what went wrong there."""
