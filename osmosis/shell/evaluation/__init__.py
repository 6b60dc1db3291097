"""`osmosis eval run`: the shell around the pure run. Importing this package imports nothing else."""
