"""What the repository runs on itself: bootstrap, checks, generators."""
