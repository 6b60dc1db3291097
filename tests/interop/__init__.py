"""The public osmosis-ai package as the other side of the wire."""
