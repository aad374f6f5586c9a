"""Names that can be typed: what Tab completes in a shell, and what a wrong word was meant to be.

The user may still type a name that is not offered. Where nothing is offered, the shell completes paths. What other
programs call ours is in one dict, and difflib finds the rest. Opens no run; imports no torch.
"""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

MEANT = {  # ours → what other programs call it; SYNONYMS has the same of settings
    "prepare": "preprocess tokenize binarize download data",
    "train": "fit learn resume continue",
    "train --from RUN": "finetune fine-tune",
    "evaluate": "eval test validate bleu",
    "translate": "generate predict infer inference decode interactive",
    "inspect": "attention visualize",
    "serve": "server web api",
    "curves": "plot history",
    "runs": "list ls models",
    "export": "convert quantize",
    "--version": "version v",
    "--help": "help",
    "--run": "model checkpoint model-path m",
    "--input": "file input-file src",
    "--output": "output-file output-dir out",
    "--reference": "ref references",
    "--target": "ref reference tgt t",
    "--beam-size": "beam beams num-beams k",
    "--n-best": "nbest num-return-sequences",
    "--max-tokens": "max-len max-length max-new-tokens",
    "--device cuda": "gpu gpus cuda",
    "--fresh": "force overwrite restart",
    "--format html": "html",
    "--quantization": "int8 int16 float16 bfloat16",
    "--split-sentences": "split",
    "--port": "p",
}
SENTENCES = {  # what no option says → what it is said of
    "the sentence is an argument, in quotes": "inspect -i, inspect --input",
    "the same command, given again, goes on with an interrupted run": "train --resume, train --continue",
    "a run has one direction, which `tfm runs` shows; choose it by --run": "translate --source, translate --target, "
    "translate --lang, translate --source-lang, translate --target-lang",
}


def runs() -> list[str]:
    """The names of the runs under runs/, and the folders of exported ones under exports/."""
    exported = sorted(str(path.parent) for path in Path("exports").glob("*/run.json"))
    return sorted(path.parent.name for path in Path("runs").glob("*/run.json")) + exported


def splits() -> list[str]:
    """The names of the splits of every prepared dataset under data/."""
    suffix = ".source.ids.npy"
    return sorted({path.name.removesuffix(suffix) for path in Path("data").glob(f"*/*{suffix}")})


def configs(incomplete: str) -> list[str]:
    """The names of the configs that come with tfm."""
    from transformer_cli.config.load import shipped_configs

    return [name for name in shipped_configs() if name.startswith(incomplete)]


def settings(incomplete: str) -> list[str]:
    """Every key of the config that begins with `incomplete`, followed by "=": `training.epochs=`."""
    from transformer_cli.config.load import settings_by_key
    from transformer_cli.config.schema import Config

    return [f"{key}=" for key in settings_by_key(Config()) if f"{key}=".startswith(incomplete)]


def decoding_settings(incomplete: str) -> list[str]:
    """Like `settings`, but only the keys that `--set` takes where a trained run is used."""
    return [each for each in settings(incomplete) if each.startswith("decoding.")]


def did_you_mean(word: str, known: Mapping[str, str]) -> str:
    """Returns how the error for an unknown word ends: with what it was meant to be, or nothing.

    known: commands, options and settings → how each is written, as in training.epochs → --set training.epochs=VALUE.
    """
    from transformer_cli.config.mistakes import SYNONYMS

    names: dict[str, list[str]] = {}
    for ours in known:
        names.setdefault(_plain(ours), []).append(ours)
    for ours, theirs in (MEANT | SYNONYMS).items():
        for name in theirs.split() if ours.partition(" ")[0] in known else ():
            names.setdefault(_plain(name), []).append(ours)
    found = names.get(_plain(word)) or [names[each][0] for each in get_close_matches(_plain(word), names, 2, 0.7)]
    found = [each for each in found if each.startswith("-")] or found  # options before settings
    written = [known.get(each) or f"{known[each.partition(' ')[0]]} {each.partition(' ')[2]}" for each in found]
    return f"; did you mean {' or '.join(dict.fromkeys(written))}?" if found else ""


def option_meant(command: str, option: str, known: Collection[str]) -> str:
    """Returns how the error for an unknown option ends. known: the command's options."""
    for sentence, asked in SENTENCES.items():
        if f"{command} {option}" in asked.split(", "):
            return f": {sentence}"
    written = {each: each for each in known}
    if "--set" in known:
        offered = settings if "--config" in known or command == "config" else decoding_settings
        written |= {each.removesuffix("="): f"--set {each}VALUE" for each in offered("")}
    return did_you_mean(option, written) or f"; `tfm {command} -h` lists the options"


def arguments_meant(command: str, taken: Sequence[str], extra: Sequence[str], known: Collection[str]) -> str:
    """Returns how the error for arguments that a command does not take ends. taken: those before them that it does."""
    if command == "inspect":
        return f'; did you mean tfm inspect "{" ".join([*taken, *extra])}", in quotes?'
    found = [option for option in (as_option(word, known) for word in extra) if option]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def as_option(word: str, known: Collection[str]) -> str:
    """Returns the option with which an argument was meant, such as `--config demo`, or nothing."""
    from transformer_cli.config.load import find_config

    meant = {"--config": find_config(word).is_file(), "--set": "=" in word}
    return next((f"{option} {word}" for option, is_so in meant.items() if is_so and option in known), "")


def _plain(name: str) -> str:
    return name.lstrip("-").rpartition(".")[2].lower().replace("_", "-")
