"""Writes the embedded corpus anew: `PYTHONPATH=scripts python -m captions`, which takes a second."""

from captions import as_data
from transformer_cli.data.corpora import CAPTIONS

CAPTIONS.write_bytes(as_data())
print(f"{CAPTIONS}: {CAPTIONS.stat().st_size:,} bytes")
