"""Public parallel texts, and the parts that a text is split into."""

PARTS = ("train", "valid", "test")
