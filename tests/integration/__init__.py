"""Real processes, sockets on loopback and files."""
