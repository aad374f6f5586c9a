"""Judges validations by BLEU or chrF of greedy translations, and shows some of them, as settings ask for it.

Unlike a Translator, does not protect placeholders or the like.
"""

import logging
from collections.abc import Sequence
from itertools import chain

from transformer_cli.config.schema import TranslationSettings
from transformer_cli.model.transformer import Transformer
from transformer_cli.scoring.metrics import METRICS, text_metrics, warn_if_not_nfc
from transformer_cli.search.decoder import TransformerEngine
from transformer_cli.search.protocols import Hypothesis, SearchRequest
from transformer_cli.search.rules import max_target_tokens
from transformer_cli.text.codec import SIDES, Codecs
from transformer_cli.text.normalization import nfc
from transformer_cli.text.vocabulary import N_SOS_EOS
from transformer_cli.text.words import join_subwords
from transformer_cli.training.callbacks import Callback, TrainerView

GREEDY = TranslationSettings(precision="float32")

log = logging.getLogger(__name__)


class TranslationScore(Callback):
    """Scores weights by the validation text of the dataset."""

    implements = "training.best_checkpoint_metric"

    def on_begin(self, trainer: TrainerView) -> None:
        """Warn of references that no translation can equal."""
        warn_if_not_nfc(trainer.dataset.text("valid", "target"), "valid")

    def score(self, trainer: TrainerView, model: Transformer) -> float:
        """Returns BLEU or chrF, whichever the setting names, of greedy translations; long sources are truncated.

        It is of NFC on both sides: references that NFC changes, such as Bengali with U+09DF, would never be reached.
        Leaves the model in eval mode.
        """
        sources, references = (trainer.dataset.text("valid", side) for side in SIDES)
        data, by = trainer.run.config.data, trainer.run.config.training.best_checkpoint_metric
        texts = greedy_translations(model, trainer.run.codecs, sources)
        metrics = text_metrics(language=data.output_language, lowercase=data.lowercased)
        metric = metrics[next(name for name in METRICS if name.lower() == by)]
        joined = [nfc(join_subwords(each, data.joiner)) for each in references]
        return float(metric.corpus_score([*map(nfc, texts)], [joined]).score)


class Examples(Callback):
    """Translates the same sentences at each validation, spread over the validation text of the dataset."""

    implements = "training.examples"

    def examples(self, trainer: TrainerView) -> list[dict[str, str]]:
        """Returns as many examples as the setting says."""
        n = trainer.run.config.training.examples
        lines = (trainer.dataset.text("valid", side) for side in SIDES)
        source, target = (of_side[:: max(1, len(of_side) // n)][:n] for of_side in lines)
        texts = source, target, greedy_translations(trainer.learner.model, trainer.run.codecs, source)
        return [
            dict(zip(("source", "reference", "translation"), each, strict=True)) for each in zip(*texts, strict=True)
        ]

    def on_validation(self, trainer: TrainerView) -> None:
        """Log the examples."""
        for kind, text in chain.from_iterable(each.items() for each in trainer.validations[-1].examples):
            log.info("  %-11s  %s", kind, text)


def greedy_translations(model: Transformer, codecs: Codecs, sources: Sequence[str]) -> list[str]:
    """Returns the greedy translation of each source; blank lines stay empty."""
    encoded = [codecs.source.encode(line) for line in sources]
    rows, texts = [row for row, line in enumerate(encoded) if line.ids], [""] * len(sources)
    for row, best in zip(rows, greedy_hypotheses(model, [encoded[row].ids for row in rows]), strict=True):
        attended = [encoded[row].tokens[index] for index in best.alignment]
        texts[row] = codecs.target.decode(best.tokens, unk_replacements=attended)
    return texts


def greedy_hypotheses(model: Transformer, sources: Sequence[Sequence[int]]) -> list[Hypothesis]:
    """Returns the greedy translation of each source, which has an id or more; leaves the model in eval mode."""
    engine = TransformerEngine([model.eval()])
    max_tokens = None if engine.max_length is None else engine.max_length - N_SOS_EOS
    ids = [each[:max_tokens] for each in sources]
    requests = [SearchRequest(each, max_target_tokens(GREEDY, len(each), engine.max_length)) for each in ids]
    batches = engine.translate(requests, GREEDY)
    found = {index: best for batch, of_batch in batches for index, (best, *_) in zip(batch, of_batch, strict=True)}
    return [found[index] for index in range(len(ids))]
