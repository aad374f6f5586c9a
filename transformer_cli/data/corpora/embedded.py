"""The embedded corpus of captions, which the package generates from a seed. Needs no file and no network."""

import hashlib
from functools import partial

from transformer_cli.config.data import DataConfig
from transformer_cli.data import captions
from transformer_cli.data.corpora.corpus import Corpus


def open_captions(data: DataConfig) -> Corpus:
    """Generate the captions that `data.captions` describes.

    The SHA-256 is taken over the German and the English text, whichever of them is the source.
    """
    total, splits, sizes = hashlib.sha256(), {}, {}
    for split, pairs in captions.write(data.captions.sentences, data.captions.seed).items():
        for german, english in pairs:
            total.update(f"{split}\t{german}\t{english}\n".encode())
        splits[split] = partial(iter, pairs if data.source == "de" else [(en, de) for de, en in pairs])
        sizes[split] = len(pairs)
    return Corpus({"captions": total.hexdigest()}, splits, sizes)
