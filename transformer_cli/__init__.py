"""tfm: the Transformer of "Attention Is All You Need", trained, judged and run for translation."""
