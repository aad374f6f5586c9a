"""Imported models of Marian have Marian's scores; unsupported and damaged ones are refused in one line."""

import io
import os
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from kinds import Tfm
from oracles.marian import log_probs
from small_marian import HEADS, SETTINGS, TEXT, make_model, weights, write
from tables import read_table
from transformer_cli import Translator
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.data.batching import pad_ids
from transformer_cli.errors import ConfigError, DataError, TfmError
from transformer_cli.model.loss import token_losses
from transformer_cli.text.codec import ImportedCodec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small model, from German into English by its folder's name."""
    return make_model(tmp_path / "de-en")


def test_imported_model_has_the_scores_of_marians_formulas(folder: Path, tmp_path: Path) -> None:
    run = import_run(folder, source="en", target="en", runs_dir=tmp_path / "runs")
    translator = Translator(run.folder, device="cpu")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocab.spm"))
    for source, target in zip(TEXT, [*TEXT[1:], "the ж dog"], strict=False):
        ours = [pad_ids([run.codecs.source.encode(text).ids]) for text in (source, target)]
        with torch.inference_mode():
            found = -token_losses(translator.model, *ours).nll.numpy()
        read, written = ([*theirs.encode(text), 0] for text in (source, target))
        expected = log_probs(weights(), read, written, HEADS)
        assert found == pytest.approx(expected, abs=1e-4)
    (translation,) = translator.translate_detailed(["the old dog"])
    assert "".join(translation.source_tokens) == " the old dog"


def test_imported_codec_keeps_language_tokens_copies_unknowns(folder: Path, tmp_path: Path) -> None:
    codec = import_run(folder, runs_dir=tmp_path / "runs").codecs.source
    assert isinstance(codec, ImportedCodec)
    read = codec.encode("the ж dog")
    assert codec.decode(read.ids) == "the <unk> dog"
    assert codec.decode(read.ids, unk_replacements=read.tokens) == "the ж dog"
    assert codec.encode_lines(["the ж dog", " "]) == [read.ids, []]
    assert "park" in codec.decode(codec.encode("the park").ids)
    encoded = codec.encode("the {name} dog", [(4, 10)])
    assert (codec.decode(encoded.ids), encoded.normalized.placeholders[0].text) == ("the dog", "{name}")


@pytest.mark.parametrize(
    ("line", "text", "placeholders"),
    [
        ("the ｏｌｄ dog", "the ｏｌｄ dog", []),  # which its SentencePiece normalises by itself
        ("\u2022 the do\u00adg\u00a0😀", "the dog", ["\u2022", "😀"]),
        ("▁the ▁ dog", "the dog", ["▁", "▁"]),  # which its SentencePiece would read as a space
        ("THE OLD DOG", "the old dog", []),
        ("the DOG", "the DOG", []),
    ],
)
def test_imported_codec_treats_unknown_characters_like_ours(
    folder: Path, tmp_path: Path, line: str, text: str, placeholders: list[str]
) -> None:
    codec = import_run(folder, runs_dir=tmp_path / "runs").codecs.source
    assert isinstance(codec, ImportedCodec)
    read = codec.encode(line)
    assert (read.normalized.text, [each.text for each in read.normalized.placeholders]) == (text, placeholders)
    assert codec.encode_lines([line]) == [read.ids]


@pytest.mark.parametrize(("change", "said"), read_table(Path(__file__).with_name("unsupported_settings.txt")))
def test_import_unsupported_setting_is_refused_by_its_key(folder: Path, tmp_path: Path, change: str, said: str) -> None:
    old, new = change.split(" → ")
    assert old in SETTINGS
    write(folder, weights(), SETTINGS.replace(old, new))
    with pytest.raises(DataError) as refused:
        import_run(folder, runs_dir=tmp_path / "runs")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_import_error_names_the_wrong_or_the_missing_file(folder: Path, tmp_path: Path) -> None:
    (folder / "model.npz.decoder.yml").write_text("word-penalty: 0.5\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"de-en/model\.npz\.decoder\.yml: word-penalty: 0\.5 cannot be imported"):
        import_run(folder, runs_dir=tmp_path / "runs")
    (folder / "model.npz").unlink()
    with pytest.raises(DataError, match=r"has neither an \.npz file with weights nor Hugging Face's config\.json"):
        import_run(folder, runs_dir=tmp_path / "runs")


class Bomb:
    def __reduce__(self) -> Any:
        return open, ("/tmp/executed-by-a-pickle", "w")


def test_import_damaged_packed_or_pickled_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    path, pickled = folder / "model.npz", io.BytesIO()
    np.save(pickled, np.array([Bomb()], dtype=object), allow_pickle=True)
    whole = path.read_bytes()
    for content in (b"", whole[:1000], b"PK" + whole[2:500], pickle.dumps(Bomb())):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"model\.npz: cannot be read: [^\n]*; download it again$"):
            import_run(folder, runs_dir=tmp_path / "runs")
    for kind, content in ((zipfile.ZIP_DEFLATED, bytes(10**7)), (zipfile.ZIP_STORED, pickled.getvalue())):
        with zipfile.ZipFile(path, "w", kind) as archive:
            archive.writestr("Wemb.npy", content)
        with pytest.raises(DataError, match=r"^[^\n]*(its entries are compressed or overlap|allow_pickle)[^\n]*$"):
            import_run(folder, runs_dir=tmp_path / "runs")
    assert not Path("/tmp/executed-by-a-pickle").exists()


def test_import_any_damage_is_refused_or_another_model(folder: Path, tmp_path: Path) -> None:
    chance = random.Random(0)
    for path in (folder / "model.npz", folder / "vocab.spm"):
        content, said = path.read_bytes(), list[str]()
        for number in range(14):
            place = chance.randrange(len(content))
            end = bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :] if number > 1 else b""
            path.write_bytes(content[:place] + end)
            try:
                run = import_run(folder, name=str(number), source="de", target="en", runs_dir=tmp_path / path.name)
                Translator(run, "cpu").translate(TEXT[:1])
            except TfmError as error:
                said.append(str(error))
        assert len(said) > 1
        assert not any("\n" in line for line in said)
        path.write_bytes(content)


def test_import_not_a_model_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    runs, empty = tmp_path / "runs", tmp_path / "empty"
    empty.mkdir()
    run = import_run(folder, name="opus", runs_dir=runs)
    for place, what in (
        (run.folder, "a run of tfm"),
        (folder / "vocab.spm", "not a folder"),
        (empty, "an empty folder"),
        (tmp_path / "none", "no such folder"),
    ):
        with pytest.raises(DataError, match=rf"^[^\n]*{place.name}: {what}[^\n]*$"):
            import_run(place, name="other", runs_dir=runs)
    with pytest.raises(ConfigError, match=r"^name: name: 'a/b' cannot name a run; [^\n]*$"):
        import_run(folder, name="a/b", runs_dir=runs)


def test_import_command_prints_the_run_and_refuses_a_used_name(folder: Path, tmp_path: Path, tfm: Tfm) -> None:
    code, out, err = tfm("import", folder, "--name", "opus", "--source", "de", "--target", "en", cwd=tmp_path)
    assert (code, out) == (0, "runs/opus\n"), err
    assert "de→en" in err
    assert tfm("translate", "--run", "opus", "", cwd=tmp_path)[:2] == (0, "\n")
    with pytest.raises(ConfigError, match=r"opus exists already; give another name"):
        import_run(folder, name="opus", runs_dir=tmp_path / "runs")


def test_import_weights_in_a_pipe_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.npz").unlink()
    os.mkfifo(folder / "model.npz")
    with pytest.raises(DataError, match=r"neither an \.npz file with weights"):
        import_run(folder, runs_dir=tmp_path)
