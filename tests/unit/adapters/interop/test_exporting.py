"""`tfm export --format huggingface`: a folder for MarianMTModel, which is imported again as the same model."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import pad

from kinds import Refused, Tfm
from sealed import set_config
from small_marian import SETTINGS, TEXT, VOCABULARY, D, make_model, weights, write
from transformer_cli import Translator, load_config, prepare, train
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.adapters.interop.to_hugging_face import export_to_hugging_face
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.model.layers import Residual
from transformer_cli.runs.run import Run


@pytest.fixture(params=["one matrix", "separate vocabularies"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """A run of a small model of Marian's, from German into English."""
    folder = make_model(tmp_path / "de-en")
    if request.param != "one matrix":
        arrays = weights()
        arrays["decoder_Wemb"] = arrays.pop("Wemb")
        write(folder, {**arrays, "encoder_Wemb": arrays["decoder_Wemb"][::-1].copy()}, SETTINGS)
        for side in ("source", "target"):
            shutil.copy(folder / "vocab.spm", folder / f"{side}.spm")
        (folder / "vocab.spm").unlink()
    (folder / "model.npz.decoder.yml").write_text("beam-size: 6\nnormalize: 0.5\n", encoding="utf-8")
    return import_run(folder, runs_dir=tmp_path / "runs")


def test_exported_folder_is_imported_as_the_same_model(run: Run, tmp_path: Path) -> None:
    again = import_run(export_to_hugging_face(run.folder, tmp_path / "out"), runs_dir=tmp_path / "again")
    assert again.codecs == run.codecs
    assert again.config.decoding == run.config.decoding
    assert (again.config.data.source, again.config.data.target) == ("de", "en")
    known = {"max_length", "attention_dropout", "activation_dropout"}  # the format has them, the run leaves them open
    assert again.config.model.model_dump(exclude=known) == run.config.model.model_dump(exclude=known)
    translators = [Translator(each.folder, device="cpu") for each in (run, again)]
    assert translators[0].translate_detailed(TEXT) == translators[1].translate_detailed(TEXT)
    ours, theirs = (dict(each.model.named_parameters()) for each in translators)
    assert {name for name in ours if not torch.equal(ours[name], theirs[name])} == {"output.bias"}  # that of <sos>


def test_run_of_shipped_config_is_exported_and_imported_again(tmp_path: Path) -> None:
    shape = ["d_model=16", "num_heads=2", "num_encoder_layers=1", "num_decoder_layers=1", "d_ff=16"]
    text = ["corpus=captions", "captions.sentences=600", "subwords.vocab_size=400"]
    small = [*(f"model.{each}" for each in shape), *(f"data.{each}" for each in text)]
    config = load_config("huggingface", [*small, "training.max_steps=3", "training.batch_size=512"])
    prepare(config, data_dir=tmp_path / "data")
    run = train(config, data_dir=tmp_path / "data", runs_dir=tmp_path / "runs")
    again = import_run(export_to_hugging_face(run.folder, tmp_path / "out"), runs_dir=tmp_path / "again")
    texts = [Translator(each, "cpu").translate(["Ein Hund läuft."]) for each in (run, again)]
    assert texts[0] == texts[1]


def test_export_of_changed_formula_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Residual, "forward", lambda self, x, output: x + self.norm(output))
    with pytest.raises(ConfigError, match=r"^the model's code was changed, .*: the loss of 1 pair is "):
        export_to_hugging_face(run.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_import_of_padded_embeddings_and_missing_tokenizer(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = export_to_hugging_face(run.folder, tmp_path / "out")
    path, size = place / "model.safetensors", VOCABULARY + 1  # with <pad>
    whole = load_file(path)

    def padded(value: torch.Tensor, rows: int) -> torch.Tensor:
        """An embedding (size, D) or a bias (1, size) with more rows; any other weight as it is."""
        sizes: dict[tuple[int, ...], list[int]] = {(size, D): [0, 0, 0, rows], (1, size): [0, rows]}
        return pad(value, sizes.get(tuple(value.shape), []), value=9.0)

    save_file({name: padded(value, 127) for name, value in whole.items()}, path)
    again = import_run(place, name="padded", runs_dir=tmp_path)
    assert "127 rows more than the vocabulary has tokens" in caplog.text
    models = [Translator(each.folder, device="cpu") for each in (run, again)]
    assert models[0].translate_detailed(TEXT) == models[1].translate_detailed(TEXT)
    for change, said in (
        (lambda value: padded(value, 128), "it should be floats"),
        (lambda value: value * torch.nan, "has infinite numbers or NaN"),
    ):
        save_file({name: change(value) for name, value in whole.items()}, path)
        with pytest.raises(DataError, match=said):
            import_run(place, name="refused", runs_dir=tmp_path)
    for name in ("target.spm", "vocab.json"):
        (place / name).unlink()
        with pytest.raises(DataError, match=rf"{name}: missing; copy the tokenizer's files from the model that"):
            import_run(place, name="refused", runs_dir=tmp_path)


def test_exported_config_and_tokens_equal_those_of_transformers(run: Run, tmp_path: Path) -> None:
    place = export_to_hugging_face(run.folder, tmp_path / "out")
    config, search, tokenizer, tokens = (
        json.loads((place / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "generation_config", "tokenizer_config", "vocab")
    )
    assert list(tokens)[:3] == ["</s>", "<unk>", "<pad>"]
    assert sorted(tokens.values()) == [*range(config["vocab_size"])]
    assert (config["model_type"], config["encoder_ffn_dim"], config["decoder_ffn_dim"]) == ("marian", 24, 24)
    assert config["share_encoder_decoder_embeddings"] == (not tokenizer["separate_vocabs"])
    assert (search["num_beams"], search["length_penalty"], search["bad_words_ids"]) == (6, 0.5, [[2]])
    assert search["decoder_start_token_id"] == search["pad_token_id"] == tokens["<pad>"]


def test_exported_sampling_settings_are_imported_again(run: Run, tmp_path: Path) -> None:
    sampling = DecodingConfig(sample=True, temperature=0.5, top_k=5, top_p=0.9)
    set_config(run.folder, run.config.model_copy(update={"decoding": sampling}))
    place = export_to_hugging_face(run.folder, tmp_path / "out")
    assert import_run(place, name="again", runs_dir=tmp_path).config.decoding == sampling


@pytest.mark.parametrize(
    ("key", "value"),
    [("norm", "pre"), ("final_norm", True), ("start_token", True), ("positions", "learned"), ("head_dim", 2)],
)
def test_export_unsupported_by_transformers_is_refused_by_key(
    run: Run, tmp_path: Path, key: str, value: object
) -> None:
    tree = run.config.model_dump(mode="json")
    tree["model"] |= {key: value, "max_length": 64}
    set_config(run.folder, Config.model_validate(tree))
    with pytest.raises(ConfigError, match=rf"^model\.{key}: {str(value).lower()} cannot be exported to huggingface, "):
        export_to_hugging_face(run.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_export_command_to_hugging_face_writes_a_new_folder(
    run: Run, tmp_path: Path, tfm: Tfm, refused: Refused, project: Path
) -> None:
    place = "exports/de-en-huggingface"
    assert tfm("export", "de-en", "--format", "huggingface", cwd=tmp_path)[:2] == (0, f"{place}\n")
    assert f"{place} exists already" in refused("export", "de-en", "--format", "huggingface", cwd=tmp_path)
    said = refused("export", "tiny", "--format", "huggingface", cwd=project)
    assert "data.tokens: words cannot be exported to huggingface, only subwords" in said
