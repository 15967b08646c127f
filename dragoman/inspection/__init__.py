"""One translation, opened: what was attended to, how sure the model was, what the search considered."""
