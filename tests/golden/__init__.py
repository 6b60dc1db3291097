"""Exact bytes of every file format, in files beside the tests. `just golden` regenerates them."""
