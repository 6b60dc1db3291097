"""The `osmosis` command. Importing this package imports nothing else: every start-up pays only for what it uses."""
