"""Leaving with a model, arriving with one: exports and imports, each with a proof that both sides agree."""
