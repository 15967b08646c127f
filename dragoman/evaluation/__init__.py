"""Scores that can be quoted."""
