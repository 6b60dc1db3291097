"""Evaluation, under the names that current code imports from."""
