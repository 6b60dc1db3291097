"""The test suite. A test states a promise in its docstring and could fail."""
