"""The special tokens that every codec begins with, and their ids. Imports nothing, so that help texts stay fast."""

SPECIALS = ("<unk>", "<pad>", "<sos>", "<eos>")
UNK, PAD, SOS, EOS = range(4)
MARKERS = 2  # <sos> and <eos>, which stand around every sentence that a model reads
