"""Inference: the search, the translator around it, and evaluation."""
