"""The languages and vocabularies of imported models, and models with several target languages."""

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kinds import Tfm
from small_marian import TEXT, VOCABULARY, D, make_model, weights, write
from transformer_cli import Translator
from transformer_cli.adapters.finetuning.settings import finetuning_settings
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.adapters.interop.marian import read_tokens
from transformer_cli.adapters.serve.languages import Directions
from transformer_cli.config.schema import DataConfig
from transformer_cli.errors import DataError
from transformer_cli.runs.run import Run
from transformer_cli.text.codec import Codecs, ImportedCodec, SubwordCodec
from transformer_cli.text.lengths import PLAIN_BOUNDS, LengthBounds
from transformer_cli.text.subwords import train_subwords


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small model, from German into English by its folder's name."""
    return make_model(tmp_path / "de-en")


def renamed(folder: Path, name: str) -> Path:
    return folder.rename(folder.with_name(name))


@pytest.mark.parametrize(
    ("name", "readme", "codes"),
    [
        ("opus-mt-de-en", "", ("de", "en")),
        ("opus-mt-tc-big-de-pt_BR", "", ("de", "pt_BR")),
        ("fr-de", "* source language(s): deu\n", ("fr", "de")),
        ("model", "* source language(s): deu\n* target language(s): eng\n", ("de", "en")),
        ("model", "# opus-mt-de-en\n", ("de", "en")),
    ],
)
def test_import_finds_languages_in_the_name_or_the_readme(
    folder: Path, tmp_path: Path, name: str, readme: str, codes: tuple[str, str]
) -> None:
    place = renamed(folder, name)
    if readme:
        (place / "README.md").write_text(readme, encoding="utf-8")
    data = import_run(place, runs_dir=tmp_path / "runs").config.data
    assert (data.source, data.target) == codes


def test_import_link_has_its_own_name_and_warns_of_languages(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = tmp_path / "opus-mt-sv-fi"
    link.symlink_to(renamed(folder, "model"))
    run = import_run(link, source="swe", runs_dir=tmp_path / "runs")
    assert (run.folder.name, run.config.data.source, run.config.data.target) == (link.name, "swe", "fi")
    assert caplog.messages == []
    import_run(link, name="other", target="no", runs_dir=tmp_path / "runs")
    assert caplog.messages == [f"target: no is used, although {link} says fi"]


def test_import_without_languages_needs_them_as_options(folder: Path, tmp_path: Path) -> None:
    place = renamed(folder, "model")
    with pytest.raises(DataError, match="does not say its languages; give source and target, such as"):
        import_run(place, runs_dir=tmp_path / "runs")
    with pytest.raises(DataError, match="give target, such as"):
        import_run(place, source="de", runs_dir=tmp_path / "runs")
    assert import_run(place, source="de", target="en", runs_dir=tmp_path / "runs").config.data.target == "en"


def two(folder: Path, names: tuple[str, str]) -> Path:
    """The model with two vocabularies, which differ in their last two tokens."""
    arrays = weights()
    arrays["encoder_Wemb"], arrays["decoder_Wemb"] = arrays["Wemb"], arrays.pop("Wemb")
    write(folder, arrays)
    pieces = import_tokens(folder)
    for name, last in zip(names, ("first", "second"), strict=True):
        tokens = [*pieces[:-1], last]
        (folder / name).write_text(yaml.dump({token: n for n, token in enumerate(tokens)}, sort_keys=False))
    (folder / "vocab.spm").rename(folder / "both.spm")
    return folder


def import_tokens(folder: Path) -> list[str]:
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocab.spm"))
    return [model.id_to_piece(n) for n in range(VOCABULARY)]


@pytest.mark.parametrize("settings", ["decoder.yml", "model.npz.yml"])
def test_import_finds_vocabularies_by_the_settings(folder: Path, tmp_path: Path, settings: str) -> None:
    names = ("vocab.b.yml", "vocab.a.yml")
    place = two(folder, names)
    (place / settings).write_text(yaml.dump({"vocabs": [f"/x/{name}" for name in names]}), encoding="utf-8")
    codecs = import_run(place, runs_dir=tmp_path / "runs").codecs
    assert (codecs.source.all_tokens()[-1], codecs.target.all_tokens()[-1]) == ("first", "second")


def test_import_unclear_vocabularies_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"which of vocab.a.yml, vocab.b.yml is the source's vocabulary"):
        import_run(two(folder, ("vocab.b.yml", "vocab.a.yml")), runs_dir=tmp_path / "runs")


TOKENS = ["</s>", "<unk>", "▁x", "\U0001f600", "\x1b", "a\x85b", "c\u2028d", "x" * 300, "#", "null", "<<", "'", '"']


@pytest.mark.parametrize("name", ["vocab.yml", "vocab.json", "list.json", "vocab.txt", "escaped.yml", "json.yml"])
def test_read_tokens_reads_yaml_json_and_plain_lists(tmp_path: Path, name: str) -> None:
    numbered = {token: number for number, token in enumerate(TOKENS)}
    by_hand = '"\\e": 4\n? \'▁x\'\n: 2\n"\\U0001F600": 3\na\x85b: 5\nc\u2028d: 6\n"\\"": 12\n'
    by_hand += "".join(f"{token}: {numbered[token]}\n" for token in ("</s>", "<unk>", "null", "<<"))
    by_hand += f"? {'x' * 300}\n: 7\n'#': 8\n'''': 11\n"
    content = {
        "vocab.yml": by_hand,
        "vocab.json": json.dumps(numbered),
        "json.yml": json.dumps(numbered, indent=1),
        "list.json": json.dumps(TOKENS),
        "vocab.txt": "".join(f"{token}\n" for token in TOKENS),
        "escaped.yml": yaml.dump(numbered, sort_keys=False),
    }[name]
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert read_tokens(tmp_path / name) == TOKENS


@pytest.mark.parametrize(
    "text", ["a: [1]", "- a", "a: &x b\nc: *x", "a: {b: c}", "", "a", "[", "a: b: c", "a: 0\na: 0"]
)
def test_read_tokens_of_other_files_is_one_line_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "vocab.yml").write_text(text)
    with pytest.raises(DataError, match=r"^[^\n]*vocab\.yml: [^\n]*; download it again$"):
        read_tokens(tmp_path / "vocab.yml")


def test_import_several_models_are_refused(folder: Path, tmp_path: Path, tfm: Tfm) -> None:
    shutil.copy(folder / "model.npz", folder / "model.best-bleu.npz")
    with pytest.raises(DataError, match=r"name one as model: model.best-bleu.npz, model.npz$"):
        import_run(folder, runs_dir=tmp_path / "runs")
    assert tfm("import", folder, "--model", "model.npz", cwd=tmp_path)[:2] == (0, "runs/de-en\n")


@pytest.fixture
def several(folder: Path, tmp_path: Path) -> Run:
    """A model whose vocabulary has the tokens >>fra<< and >>es<<."""
    tokens = [*import_tokens(folder), ">>fra<<", ">>es<<"]
    chance, arrays = np.random.default_rng(1), weights()
    arrays["Wemb"] = np.vstack((arrays["Wemb"], chance.normal(0, 0.3, (2, D)).astype(np.float32)))
    bias: Any = arrays["decoder_ff_logit_out_b"]
    arrays["decoder_ff_logit_out_b"] = np.hstack((bias, np.zeros((1, 2), np.float32)))
    write(folder, arrays)
    (folder / "vocab.yml").write_text(yaml.dump({token: n for n, token in enumerate(tokens)}), encoding="utf-8")
    return import_run(renamed(folder, "model"), name="several", source="en", runs_dir=tmp_path / "runs")


def test_translate_to_prepends_the_target_language_token(several: Run) -> None:
    assert (several.config.data.target, several.codecs.target_languages) == ("mul", {"fr": ">>fra<<", "es": ">>es<<"})
    translator = Translator(several.folder, device="cpu")
    typed = [each.source_ids for each in translator.translate_detailed([">>fra<< the old dog", ">>es<< the old dog"])]
    for code in ("fr", "fra"):
        french = translator.for_target(code)
        found = french.translate_detailed(["the old dog", ">>es<< the old dog", " "])
        assert [each.source_ids for each in found] == [*typed, []]
        (line,) = french.with_options(split_sentences=True).translate_detailed(["The old dog. The park. >>es<< Trees."])
        assert line.sentences is not None
        assert [each.source_tokens[0] for each in line.sentences] == [">>fra<<", ">>fra<<", ">>es<<"]
    (line,) = translator.with_options(split_sentences=True).translate_detailed([">>es<< The old dog. The park."])
    assert line.sentences is not None
    assert [each.source_tokens[0] for each in line.sentences] == [">>es<<", ">>es<<"]
    assert isinstance(several.codecs.source, ImportedCodec)
    lengths = {">>es<<": LengthBounds(1e6, 1e6, 0.0, 0.0)}  # everything is too short
    translator.pipeline = replace(translator.pipeline, lengths=lengths)
    found = translator.for_target("es").translate_detailed(["the old dog", ">>fra<< the old dog"])
    assert [each.unusual_length for each in found] == ["too short", PLAIN_BOUNDS.check("the old dog", found[1].text)]


def test_translate_to_unknown_language_is_one_line_error(several: Run, tmp_path: Path, tfm: Tfm) -> None:
    said = "tfm: error: de is not a target language of the model; choose one of es, fr\n"
    assert tfm("translate", "--run", "several", "--to", "de", "the dog", cwd=tmp_path) == (1, "", said)
    assert tfm("translate", "--run", "several", "--to", "es", "", cwd=tmp_path)[:2] == (0, "\n")


def test_finetuning_settings_have_the_imported_models_search(folder: Path, tmp_path: Path) -> None:
    (folder / "model.npz.decoder.yml").write_text("beam-size: 12\nnormalize: 0\n", encoding="utf-8")
    run = import_run(folder, runs_dir=tmp_path / "runs")
    taught = finetuning_settings(str(run.folder))
    assert (taught["decoding"]["beam_size"], taught["decoding"]["length_penalty"]) == (12, 0.0)
    limits = (run.config.model.max_length, taught["data"]["max_chars"], taught["data"]["tokenizer_from"])
    assert limits == (None, 1000, str(run.folder))


@pytest.fixture
def theirs(folder: Path, tmp_path: Path) -> Path:
    """A model in Hugging Face's format, with random tied weights and two added tokens."""
    from safetensors.numpy import save_file

    place = tmp_path / "theirs"
    place.mkdir()
    tokens = [*import_tokens(folder), "<pad>"]
    for side in ("source", "target"):
        shutil.copy(folder / "vocab.spm", place / f"{side}.spm")
    (place / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    added = {"<brand>": len(tokens), ">>fra<<": len(tokens) + 1}
    (place / "added_tokens.json").write_text(json.dumps(added))
    config = {
        "model_type": "marian", "d_model": D, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
        "activation_function": "swish", "static_position_embeddings": True, "max_position_embeddings": 64,
        "decoder_start_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1, "scale_embedding": True,
        "_name_or_path": "Helsinki-NLP/opus-mt-en-fr", "num_beams": 4,
    }  # fmt: skip
    (place / "config.json").write_text(json.dumps(config))
    chance = np.random.default_rng(0)
    n, arrays = len(tokens) + 2, dict[str, Any]()

    def add(name: str, *shape: int) -> None:
        arrays[name] = chance.normal(0, 0.3, shape).astype(np.float32)

    add("model.shared.weight", n, D)
    add("final_logits_bias", 1, n)
    for stack, blocks in (("encoder", ["self"]), ("decoder", ["self", "encoder"])):
        name = f"model.{stack}.layers.0."
        for block in blocks:
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                add(f"{name}{block}_attn.{part}.weight", D, D)
                add(f"{name}{block}_attn.{part}.bias", D)
        for norm in [*(f"{block}_attn_layer_norm" for block in blocks), "final_layer_norm"]:
            add(f"{name}{norm}.weight", D)
            add(f"{name}{norm}.bias", D)
        for layer, shape in (("fc1", (8, D)), ("fc2", (D, 8))):
            add(f"{name}{layer}.weight", *shape)
            add(f"{name}{layer}.bias", shape[0])
    save_file(arrays, place / "model.safetensors")
    return place


def configured(place: Path, **more: object) -> None:
    path = place / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def test_import_hugging_face_pickle_error_suggests_no_execution(theirs: Path, tmp_path: Path) -> None:
    (theirs / "model.safetensors").unlink()
    os.mkfifo(theirs / "model.safetensors")
    (theirs / "pytorch_model.bin").write_bytes(pickle.dumps(print, 2))
    with pytest.raises(DataError, match=r"model\.bin: damaged, or a pickle that could run code, [^\n]*; delete it$"):
        import_run(theirs, runs_dir=tmp_path / "runs")


def test_import_hugging_face_reads_languages_beam_and_tokens(theirs: Path, tmp_path: Path) -> None:
    (theirs / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {"9" * 5000: {"content": "a"}}}))
    run = import_run(theirs, runs_dir=tmp_path / "runs")
    assert (run.config.data.source, run.config.data.target, run.config.decoding.beam_size) == ("en", "fr", 4)
    assert run.config.data.subwords.user_defined_symbols == ("<brand>",)
    assert run.codecs.source.encode(">>fra<< the <brand> dog").tokens[0] == ">>fra<<"
    assert "<brand>" in run.codecs.source.encode("the <brand> dog").tokens
    assert "<brand>" in Run.open(run.folder).codecs.source.encode("the <brand> dog").tokens


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("forced_bos_token_id", 3), ("bad_words_ids", [[5]]), ("suppress_tokens", [4])),
        *(("begin_suppress_tokens", [4]), ("min_new_tokens", 5), ("encoder_no_repeat_ngram_size", 3)),
        *(("num_beam_groups", 2), ("forced_eos_token_id", 7), ("force_words_ids", [[5]])),
    ],
)
def test_import_hugging_face_refuses_unsupported_search_by_key(
    theirs: Path, tmp_path: Path, key: str, value: object
) -> None:
    configured(theirs, **{key: value})
    with pytest.raises(DataError, match=rf"config\.json: {key}: .* cannot be imported: "):
        import_run(theirs, runs_dir=tmp_path / "runs")


def test_import_hugging_face_warns_of_ignored_settings(
    theirs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from safetensors.numpy import load_file, save_file

    drawn = {"do_sample": True, "num_beams": 1, "temperature": 0.5, "top_p": 0.9}
    configured(theirs, max_length=20, max_new_tokens=9, bad_words_ids=[[VOCABULARY]], forced_eos_token_id=0, **drawn)
    arrays = load_file(theirs / "model.safetensors")
    arrays["lm_head.weight"] = arrays["model.shared.weight"] + 1
    save_file(arrays, theirs / "model.safetensors")
    run = import_run(theirs, runs_dir=tmp_path / "runs")
    assert run.config.model.tie_embeddings == "none"
    assert (run.config.decoding.temperature, run.config.decoding.top_k, run.config.decoding.top_p) == (0.5, 50, 0.9)
    said = "\n".join(caplog.messages)
    assert "config.json: max_length: 20 is ignored" in said
    assert "config.json: max_new_tokens: 9 is ignored" in said
    assert "tie_word_embeddings is true, but the weights differ" in said


def test_subword_symbols_keep_target_language_tokens_whole() -> None:
    symbols = (">>fra<<", ">>spa<<")
    lines = [f"{token} {text}" for token in symbols for text in TEXT] * 3
    model = train_subwords(lines, vocab_size=285, algorithm="unigram", symbols=symbols)
    codec = SubwordCodec(model, algorithm="unigram")
    assert codec.target_languages == {"fr": ">>fra<<", "es": ">>spa<<"}
    typed = codec.encode(">>fra<< the old dog")
    assert ">>fra<<" in typed.tokens
    asking = Codecs(codec, codec).for_target("fr").source
    assert isinstance(asking, SubwordCodec)
    assert asking.encode("the old dog").ids == typed.ids
    assert asking.encode(">>spa<< the old dog").ids == codec.encode(">>spa<< the old dog").ids
    assert asking.encode_lines(["the old dog", ""]) == [typed.ids, []]


def test_subword_symbols_source_without_target_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    symbols = ("<2de>", "<2en>")
    text = [f"{token} {text}" for token in symbols for text in TEXT] * 3
    model = train_subwords(text, vocab_size=285, algorithm="bpe", symbols=symbols)
    target, source = (SubwordCodec(model, symbols=each) for each in ((), symbols))
    for line in ("", "<2de> the old dog", "the old dog", "the dog"):
        source.encode(line)
        target.encode(line)
    said = "several languages: name one with --to (de, en), or begin lines with its token (<2de>)"
    assert caplog.messages == [f"the model translates into {said}"]
    both = DataConfig(source="de", target="en", to="de")
    assert (both.input_language, both.output_language) == ("en", "de")


def test_directions_of_a_multilingual_run_are_one_per_target(several: Run) -> None:
    directions = Directions([Translator(several.folder, device="cpu")])
    assert directions.languages()[0]["targets"] == ["fr", "es"]
    translator, _, _ = directions.choose("en", "es", "the dog")
    (found,) = translator.translate_detailed(["the old dog"])
    assert found.source_tokens[0] == ">>es<<"
