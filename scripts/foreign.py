"""Compare imported models with the programs that wrote them: Hugging Face's transformers, and Marian itself.

tests/recipes/test_foreign.py does it in an environment that has transformers 4.46.3 and pymarian 1.12.42, too.
transformers writes random models of several shapes, and Marian trains small ones for some steps; both cut text with
SentencePiece models that are learned here from the captions that come with tfm. docs/import.md has what was found.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece
import torch

from transformer_cli import Translator
from transformer_cli.adapters.corpora.corpora import read_captions
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.adapters.interop.to_hugging_face import export_to_hugging_face
from transformer_cli.data.batching import pad_ids
from transformer_cli.errors import DataError
from transformer_cli.model.loss import token_losses
from transformer_cli.text.vocabulary import EOS, SPECIALS, UNK

HUGGING_FACE: dict[str, dict[str, Any]] = {
    "one matrix, swish, scaled": {"activation_function": "swish", "scale_embedding": True},
    "relu, not scaled, Marian's positions too": {"activation_function": "relu"},
    "gelu, 4 + 1 layers": {"activation_function": "gelu", "scale_embedding": True, "encoder_layers": 4},
    "an output of its own, language tokens": {"tie_word_embeddings": False, "scale_embedding": True},
    "separate vocabularies": {"share_encoder_decoder_embeddings": False, "scale_embedding": True},
    "separate vocabularies, an output of its own, pytorch_model.bin": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
    },
}
PRE_NORM = "pre-norm"  # which Marian 1.12.42 searches with other scores than it trains and scores with
MARIAN: dict[str, list[str]] = {
    "one matrix": ["--tied-embeddings-all"],
    "separate .spm, tied output": ["--tied-embeddings"],
    "separate .spm, untied": [],
    "separate .yml, untied": [],
    "one .yml, source and target tied": ["--tied-embeddings-src"],
    "one .yml, one matrix, learned positions": ["--tied-embeddings-all", "--transformer-train-position-embeddings"],
    "relu": ["--tied-embeddings-all", "--transformer-ffn-activation", "relu"],
    "gelu": ["--tied-embeddings-all", "--transformer-ffn-activation", "gelu"],
    PRE_NORM: ["--transformer-preprocess", "n", "--transformer-postprocess", "da", "--transformer-postprocess-top=n"],
    "post-norm, one more at the top": ["--tied-embeddings-all", "--transformer-postprocess-top", "n"],
}
REFUSED: dict[str, list[str]] = {  # by the first of these options
    "another feed-forward width in the decoder": ["--transformer-decoder-dim-ffn", "32"],
    "no projections": ["--transformer-no-projection"],
    "no affine": ["--transformer-no-affine"],
    "average attention": ["--transformer-decoder-autoreg", "average-attention"],
    "tied layers": ["--transformer-tied-layers", "1", "1"],
    "normalised embeddings": ["--transformer-postprocess-emb", "nd"],
    "no bias at the output": ["--output-omit-bias"],
}
SYMBOLS = ["☃ snow & <b>bold</b>", "«Zitat» – 100 %", "a\u00a0b", "5 × 3 = 15", "ﬁ Ⅳ ½", "tab\there", "…"]
SIDES = ("source", "target")
NEAR = 1e-4  # nats, or logits


class Compared(NamedTuple):
    """What was found, in words, and whether the imported model is that of the program that wrote it."""

    text: str
    agrees: bool


def learn(lines: Sequence[str], path: Path, size: int) -> sentencepiece.SentencePieceProcessor:
    """Learn a SentencePiece model as Marian does."""
    trainer = sentencepiece.SentencePieceTrainer
    with path.open("wb") as file:
        trainer.train(
            sentence_iterator=iter(lines),
            model_writer=file,
            vocab_size=size,
            eos_id=0,
            unk_id=1,
            bos_id=-1,
            minloglevel=2,
        )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def hugging_face(folder: Path, *, text: Sequence[tuple[str, str]], name: str) -> Compared:
    """Write a random model of a shape, import it, and compare ids, logits and greedy translations.

    What tfm exports of it is opened again, and its ids and logits are compared, too.
    """
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    place, shape = folder / "model", HUGGING_FACE[name]
    place.mkdir(parents=True)
    models = [learn([pair[side] for pair in text], place / f"{name}.spm", 400) for side, name in enumerate(SIDES)]
    pieces = [[model.id_to_piece(index) for index in range(2, len(model) - 20)] for model in models]
    languages = [">>deu<<"] if "language" in name else []
    separate = not shape.get("share_encoder_decoder_embeddings", True)
    lists = pieces if separate else [[*dict.fromkeys([*pieces[0], *pieces[1]])]]
    for each, file in zip(lists, ("vocab.json", "target_vocab.json"), strict=False):
        tokens = ["</s>", "<unk>", *languages, *each, "<pad>"]
        (place / file).write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
        n_tokens = len(tokens)  # of each side as many, since both models have the same size
    target_vocabulary = str(place / "target_vocab.json") if separate else None
    tokenizer = MarianTokenizer(
        *(str(place / f"{side}.spm") for side in SIDES),
        str(place / "vocab.json"),
        target_vocab_file=target_vocabulary,
        separate_vocabs=separate,
        source_lang="de",
        target_lang="en",
    )
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 128}
    sizes |= {
        f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in (("attention_heads", 4), ("ffn_dim", 48))
    }
    pad = n_tokens - 1
    config = MarianConfig(
        **{"vocab_size": n_tokens, **sizes, "pad_token_id": pad, "decoder_start_token_id": pad, **shape}
    )
    torch.manual_seed(1)
    theirs = MarianMTModel(config).eval()
    with torch.no_grad():
        for key, weight in theirs.named_parameters():
            if "embed_positions" not in key:
                weight.normal_(1.0 if "norm.weight" in key else 0.0, 0.3)
        theirs.final_logits_bias.normal_()
    theirs.generation_config.update(bad_words_ids=[[pad]], num_beams=1, max_length=40, forced_eos_token_id=None)
    theirs.save_pretrained(place, safe_serialization=".bin" not in name)
    tokenizer.save_pretrained(place)
    translator = Translator.load(import_run(place, name="run", runs_dir=folder / "runs").folder)
    codecs = translator.run.codecs
    again = export_to_hugging_face(translator.run.folder, folder / "again")
    its_tokenizer, its_model = MarianTokenizer.from_pretrained(again), MarianMTModel.from_pretrained(again).eval()
    lines = [*(pair[0] for pair in text), *SYMBOLS, "", "  "]
    if languages:  # of a model without them, transformers reads such a token as <unk>, and tfm as text
        prefixes = itertools.cycle([">>deu<<", ">>fra<<", ">>xyz<<", ""])
        lines = [f"{token} {line}" for token, line in zip(prefixes, lines, strict=False)]
    known, its = (
        [_rows(codec.names(), tokens) for codec, tokens in zip(vars(codecs).values(), _lists(where), strict=True)]
        for where in (place, again)
    )
    wrong = 0
    for line in lines:
        numbers = codecs.source.encode(line).ids
        for rows, cut in ((known[0], tokenizer), (its[0], its_tokenizer)):
            wrong += [*(rows[number] for number in numbers), 0] != cut(line).input_ids and bool(line.strip())
    some = [line for line in lines if any(map(str.isalpha, line))][-100:]  # others are copied
    worst, off, same, as_good = 0.0, 0.0, 0, 0
    for line, (_, reference) in zip(some, text, strict=False):
        ids = [codecs.source.encode(line).ids], [codecs.target.encode(reference).ids]
        with torch.inference_mode():
            ours = translator.model(*(pad_ids(each) for each in ids))[0]
            read = [[known[0][number] for number in ids[0][0]] + [0], [pad, *(known[1][n] for n in ids[1][0])]]
            expected = theirs(torch.tensor(read[:1]), decoder_input_ids=torch.tensor(read[1:])).logits[0]
            written = theirs.generate(torch.tensor(read[:1]))[0, 1:].tolist()
        columns = [number for number, row in enumerate(known[1]) if row not in (None, pad)]
        rows = [known[1][number] for number in columns]
        worst = max(worst, float((ours[: len(expected), columns] - expected[:, rows]).abs().max()))
        read_again = [[*(its[0][number] for number in ids[0][0]), 0], [2, *(its[1][number] for number in ids[1][0])]]
        with torch.inference_mode():
            exported = its_model(torch.tensor(read_again[:1]), decoder_input_ids=torch.tensor(read_again[1:])).logits[0]
        rows = [its[1][number] for number in columns]
        off = max(off, float((ours[: len(exported), columns] - exported[:, rows]).abs().max()))
        found = translator.with_options(beam_size=1, max_tokens=39).translations([line])[0].ids
        same += [known[1][number] for number in found] == [number for number in written if number != 0][:39]
        as_good += _beam_is_as_good(translator, theirs, line, read[0], known[1])
    return Compared(
        f"ids {len(lines) - wrong} of {len(lines):,} lines, logits within {worst:.1e}, exported {off:.1e}, "
        f"greedy {same} of {len(some)}, beam {as_good} of {len(some)} the same or better",
        not wrong and max(worst, off) < NEAR and same == len(some) and as_good == len(some),
    )


def _beam_is_as_good(
    translator: Translator, theirs: Any, line: str, read: Sequence[int | None], rows: list[int | None]
) -> bool:
    """Whether a beam of 4 finds what theirs finds, or what the model gives a higher score."""
    settings = {"num_beams": 4, "length_penalty": 1.0, "early_stopping": "never", "max_new_tokens": 39}
    settings["renormalize_logits"] = True  # here a random <pad> has a bias, so its share would count, although banned
    done = theirs.generate(torch.tensor([read]), **settings, return_dict_in_generate=True, output_scores=True)
    written = [number for number in done.sequences[0, 1:].tolist() if number != 0][:39]
    found = translator.with_options(beam_size=4, length_penalty=1.0, max_tokens=39).translations([line])[0]
    return [rows[number] for number in found.ids] == written or found.score > float(done.sequences_scores[0]) - 1e-4


def pymarian(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run Marian, and return what it has printed and logged."""
    done = subprocess.run([sys.executable, "-m", "pymarian", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def write_vocabulary(path: Path, words: Iterable[str]) -> None:
    """Write a vocabulary as Marian reads it."""
    entries = (f"{json.dumps(word, ensure_ascii=False)}: {number}\n" for number, word in enumerate(words))
    path.write_text("".join(entries), encoding="utf-8")


def marian(folder: Path, *, text: Sequence[tuple[str, str]], name: str) -> Compared:
    """Let Marian train a small model, import it, and compare scores and greedy translations of 100 lines."""
    place = folder / "model"
    place.mkdir(parents=True)
    sides = list(zip(*text, strict=True))
    is_list, is_separate = ".yml" in name, "separate" in name or name == PRE_NORM
    both = [line for pair in text for line in pair]
    learned = [
        learn(sides[side] if is_separate else both, place / f"{each}.spm", 400) for side, each in enumerate(SIDES)
    ]
    for side, each in enumerate(SIDES):
        lines = [" ".join(learned[side].encode(line, out_type=str)) if is_list else line for line in sides[side]]
        (folder / each).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (folder / f"{each}.some").write_text("".join(f"{line}\n" for line in lines[:100]), encoding="utf-8")
    if is_list:
        files = [f"{each}.vocab.yml" for each in SIDES] if is_separate else ["opus.vocab.yml"] * 2
        for file, lists in zip(files, (SIDES[:1], SIDES[1:]) if is_separate else (SIDES, SIDES), strict=True):
            words = {word for each in lists for word in (folder / each).read_text(encoding="utf-8").split()}
            write_vocabulary(place / file, ["</s>", "<unk>", *sorted(words)])
    else:
        files = [f"{each}.spm" for each in SIDES] if is_separate else ["source.spm"] * 2
    vocabularies = [str(place / file) for file in files]
    sizes = "--type transformer --dim-emb 32 --enc-depth 2 --dec-depth 2 --transformer-heads 4 --transformer-dim-ffn 48"
    steps = f"--mini-batch 32 --after-batches {60 if name in MARIAN else 1} --learn-rate 0.003 --seed 1 --workspace 256"
    options = (MARIAN | REFUSED)[name]
    training = [*sizes.split(), *steps.split(), *options]
    model = [str(place / "model.npz"), "--vocabs", *vocabularies, "--cpu-threads", "1", "--quiet"]
    pymarian("train", "--model", *model, *training, "--train-sets", *(str(folder / each) for each in SIDES))
    (place / "model.npz.decoder.yml").write_text(json.dumps({"vocabs": vocabularies, "normalize": 1, "beam-size": 6}))
    try:
        run = import_run(place, name="run", source="de", target="en", runs_dir=folder / "runs")
    except DataError as error:
        reason = str(error).replace(str(place), "FOLDER")
        return Compared(f"refused: {reason}", name in REFUSED and options[0][2:] in reason)
    some = [str(folder / f"{each}.some") for each in SIDES]
    scores = pymarian("score", "--model", *model, "--train-sets", *some, "--word-scores").stdout.splitlines()
    greedy = ["--beam-size", "1", "--no-spm-decode", "--quiet-translation", "--input"]
    written = pymarian("decode", "--models", *model, *greedy, some[0]).stdout.splitlines()
    translator, worst, same = Translator.load(run.folder), 0.0, 0
    number_of = {token: number for number, token in enumerate(run.codecs.target.names())}
    for (source, target), line, translation in zip(text[:100], scores, written, strict=True):
        ids = pad_ids([run.codecs.source.encode(source).ids]), pad_ids([run.codecs.target.encode(target).ids])
        with torch.inference_mode():
            ours = -token_losses(translator.model, *ids).nll
        expected = torch.tensor([float(number) for number in line.partition("WordScores=")[2].split()])
        worst = max(worst, float((ours - expected).abs().max()))
        same += _is_greedy(translator, source, [number_of[piece] for piece in translation.split()])
    found = f"scores of {len(scores)} lines within {worst:.1e}, greedy {same} of {len(written)}"
    if name == PRE_NORM:
        return Compared(f"{found} (by Marian's search, which differs from its own scores)", worst < NEAR)
    return Compared(found, name in MARIAN and worst < NEAR and same == len(written))


def _is_greedy(translator: Translator, line: str, theirs: list[int]) -> bool:
    """Whether our greedy search writes the same, or something else only from a tie on."""
    source = translator.run.codecs.source.encode(line).ids
    longest = 3 * (len(source) + 1)  # Marian's --max-length-factor, </s> counted
    ours = translator.with_options(beam_size=1, max_tokens=longest).translations([line])[0].ids
    if ours == theirs:
        return True
    pairs = zip([*ours, EOS], [*theirs, EOS], strict=False)
    at, pair = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
    with torch.inference_mode():
        one, other = translator.model(pad_ids([source]), pad_ids([theirs]))[0, at, list(pair)]
    return float(one - other) < NEAR


def _lists(place: Path) -> list[dict[str, int]]:
    names = ["vocab.json", "target_vocab.json" if (place / "target_vocab.json").exists() else "vocab.json"]
    return [json.loads((place / name).read_text()) for name in names]


def _rows(ours: Sequence[str], theirs: dict[str, int]) -> list[int | None]:
    """Returns their row of each of our ids."""
    rows = [None if token in SPECIALS else theirs[token] for token in ours]
    rows[UNK], rows[EOS] = theirs["<unk>"], theirs["</s>"]
    return rows


def captions() -> Sequence[tuple[str, str]]:
    """Returns the text that all of this is done with."""
    return read_captions(1000)["train"][:1000]
