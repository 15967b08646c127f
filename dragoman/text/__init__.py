"""Text: corpora, subwords, stores of ids and batches."""
