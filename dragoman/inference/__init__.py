"""Inference: the search and the translator around it."""
