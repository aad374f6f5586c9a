"""The README.md of an exported run: how to translate with it from Python, without tfm. Pure text."""

from transformer_cli.config.schema import Config
from transformer_cli.data.codec import Codecs, WordCodec
from transformer_cli.data.vocabulary import MARKERS
from transformer_cli.runs.exported import Facts

PAGE = """\
# {run}: {source} → {target}, for CTranslate2

An exported translation model: the weights of `{checkpoint}` of the run `{run}`, kept in {quantization}, in the format
of [CTranslate2](https://github.com/OpenNMT/CTranslate2) (written by version {written_by}).

With tfm, give this folder as `--run` to `tfm translate`, `evaluate` or `score`, or to `tfm compare`. `tfm verify`
compares its files with the sums in `export.json`.

Without tfm: `pip install ctranslate2 {packages}`, save this in the folder as `translate.py`, and run
`python translate.py < sentences.txt` there:

```python
{code}```

A line is one sentence of at most {longest} tokens; what is longer is cut. {note}
"""
WORDS = """\
import json
import sys
{import_unicodedata}from itertools import pairwise

import ctranslate2
import spacy

model = ctranslate2.Translator(".")
tokenizer = spacy.blank("{source}").tokenizer
with open("target.joins.json", encoding="utf-8") as file:  # which words are written without a space between them
    joins = json.load(file)
for key in joins.keys() - {{"glue_left", "glue_right"}}:
    joins[key] = {{(left, right) for left, right in joins[key]}}


def words(sentence):
    return [token.text{lower} for token in tokenizer(" ".join(sentence.split()))]

{scripts}
def is_glued(left, right):
    if (left, right) in joins["glued_pairs"]:
        return True
    if (left, right) in joins["spaced_pairs"]:
        return False
    return left in joins["glue_right"] or right in joins["glue_left"]{or_scripts}


def join(words):
    return "".join(words[:1] + [right if is_glued(left, right) else " " + right for left, right in pairwise(words)])


def translate(sentences):
    results = model.translate_batch(
        [words(sentence) for sentence in sentences],
        replace_unknowns=True,{options}
    )
    return [join(result.hypotheses[0]) for result in results]


for translation in translate([line.rstrip("\\n") for line in sys.stdin]):
    print(translation)
"""
ONE_BY_ONE = """\
Sentences are translated one at a time (`max_batch_size=1`): in a batch, CTranslate2's beam search gives the first word
of a translation the attention of another sentence, and so may copy a wrong word."""
SCRIPTS = """
def script(character):
    kind = unicodedata.category(character)[0]
    if kind == "N":
        return "DIGIT"
    return unicodedata.name(character, "").replace("-", " ").split(" ")[0] if kind in "LM" else ""

"""
SUBWORDS = """\
import sys

import ctranslate2
import sentencepiece

model = ctranslate2.Translator(".")
source = sentencepiece.SentencePieceProcessor(model_file="source.subwords.model")
target = sentencepiece.SentencePieceProcessor(model_file="target.subwords.model")


def pieces(sentence):
    return source.encode(sentence{lower}, out_type=str) if sentence.strip() else []


def translate(sentences):
    results = model.translate_batch(
        [pieces(sentence) for sentence in sentences],{options}
    )
    return [target.decode(result.hypotheses[0]) for result in results]


for translation in translate([line.rstrip("\\n") for line in sys.stdin]):
    print(translation)
"""


def readme(config: Config, codecs: Codecs, facts: Facts) -> str:
    """Returns the page. Its code searches as the run's section `decoding` says, but does not sample."""
    common = {
        "source": config.data.source,
        "lower": ".lower()" if config.data.lowercased else "",
        "options": _options(config, facts.positions),
    }
    if isinstance(codecs.target, WordCodec):
        by_script = bool(codecs.target.joins.glued_scripts)
        code = WORDS.format(
            **common,
            import_unicodedata="import unicodedata\n" if by_script else "",
            scripts=SCRIPTS if by_script else "",
            or_scripts=' or (script(left[-1]), script(right[0])) in joins["glued_scripts"]' if by_script else "",
        )
        packages, note = "spacy", "A word that the model does not know is copied."
        note += f"\n{ONE_BY_ONE}" if _is_one_by_one(config) else ""
    else:
        code = SUBWORDS.format(**common)
        packages, note = "sentencepiece", "A “▁” in the text is read as a space."
    return PAGE.format(
        **vars(facts),
        source=config.data.source,
        target=config.data.target,
        packages=packages,
        code=code,
        longest=facts.positions - MARKERS,
        note=note,
    )


def _is_one_by_one(config: Config) -> bool:
    return config.data.tokens == "words" and config.decoding.beam_size > 1


def _options(config: Config, positions: int) -> str:
    """Returns arguments of translate_batch, one per line, each after a line feed."""
    options = {
        "beam_size": config.decoding.beam_size,
        "length_penalty": config.decoding.length_penalty,
        "no_repeat_ngram_size": config.decoding.no_repeat_ngram,
        "suppress_sequences": '[["<pad>"], ["<sos>"]]',
        "min_decoding_length": 0,
        "max_decoding_length": positions - MARKERS,
        "max_input_length": positions,
        "max_batch_size": 2048,
        "batch_type": '"tokens"',
    }
    if _is_one_by_one(config):
        options |= {"max_batch_size": 1, "batch_type": '"examples"'}
    return "".join(f"\n        {name}={value}," for name, value in options.items())
