"""Text: corpora, tokenisation and scores."""
