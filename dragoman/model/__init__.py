"""The Transformer of "Attention Is All You Need", part by part under the paper's names."""
