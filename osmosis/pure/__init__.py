"""The functional core: values in, values out.

No module below this package reads files, the environment, the clock or a source of randomness, starts threads or
processes, or logs; none imports `osmosis.shell`. `tests/property/test_purity.py` enforces it.
"""
