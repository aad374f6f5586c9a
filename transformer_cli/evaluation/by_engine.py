"""Losses of encoded sentences under whatever translates them: our models, or CTranslate2. Knows ids, not text."""

import numpy as np

from transformer_cli.data.dataset import EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.decoding.ctranslate2 import CTranslate2Engine
from transformer_cli.evaluation.losses import SentenceLosses, sentence_losses
from transformer_cli.translator import Translator


def losses_by(translator: Translator, split: EncodedSplit, rows: Rows) -> SentenceLosses:
    """Returns the losses of the sentences in `rows`, in that order; see `sentence_losses`. Raises MemoryShortage.

    Of an exported model they are those of its weights as they are kept, such as in int8.
    """
    engine = translator.engine
    if not isinstance(engine, CTranslate2Engine):
        first, *others = translator.models
        return sentence_losses(first, split, rows, others=others)
    sources, targets = ([side[row].tolist() for row in rows] for side in (split.source, split.target))
    found = engine.log_probs(sources, targets)
    return SentenceLosses(
        np.array([-sum(each) for each in found], dtype=np.float64),
        np.array([len(each) for each in found], dtype=np.int64),
    )
