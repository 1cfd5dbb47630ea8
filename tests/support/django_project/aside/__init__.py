"""An application whose job runs in child processes."""
