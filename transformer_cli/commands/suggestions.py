"""Completion in the shell, and hints in errors for wrong arguments.

Where a function here returns nothing, the shell completes paths. Typer itself finds misspelt commands and options.
Opens no run; imports no torch.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

OTHER_COMMANDS = {  # what tfm has → names for it that are not similar
    "curves": "draw graph plot",
    "evaluate": "benchmark bleu test valid validate",
    "prepare": "binarize preprocess tokenize",
    "train": "continue finetune fine-tune fit resume",
    "translate": "decode generate infer inference interactive predict",
}
NAMES_OF_RUN = ("checkpoint", "checkpoint_path", "load_checkpoint", "model", "model_path", "path")  # of --run elsewhere


def runs() -> list[str]:
    """Returns the names of the runs under runs/, and the folders of exported ones under exports/."""
    exported = sorted(str(path.parent) for path in Path("exports").glob("*/run.json"))
    return sorted(path.parent.name for path in Path("runs").glob("*/run.json")) + exported


def splits() -> list[str]:
    """Returns the names of the splits of all datasets under data/."""
    suffix = ".source.ids.npy"
    return sorted({path.name.removesuffix(suffix) for path in Path("data").glob(f"*/*{suffix}")})


def configs() -> list[str]:
    """Returns the names of the configs that come with tfm."""
    from transformer_cli.config.load import shipped_configs

    return list(shipped_configs())


def settings() -> list[str]:
    """Returns the keys of all settings, each followed by "=", such as `training.epochs=`."""
    from transformer_cli.config.load import settings_by_key
    from transformer_cli.config.schema import Config

    return [f"{key}=" for key in settings_by_key(Config())]


def decoding_settings() -> list[str]:
    """Returns the keys that `--set` accepts for a trained run, in the form of `settings`."""
    return [each for each in settings() if each.startswith("decoding.")]


def suggest_settings(command: str, option: str, known: Collection[str]) -> str:
    """Returns a hint at what tfm has for an unknown option, or "". known: the command's options."""
    from transformer_cli.config.error_messages import did_you_mean, names_of_other_tools

    offered = settings() if "--config" in known or command == "config" else decoding_settings()
    name = option.lstrip("-").replace("-", "_").lower()
    if "--run" in known and name in NAMES_OF_RUN:
        return "; did you mean --run?"
    ours = names_of_other_tools().get(name, name)
    last = ours.rpartition(".")[2]
    if f"--{last}" in known:
        return f"; did you mean --{last}?"
    found = [f"--set {each}VALUE" for each in offered if last == each[:-1].rpartition(".")[2] and "--set" in known]
    return did_you_mean(*(found or [ours] * (" " in ours)))


def suggest_options(command: str, taken: Sequence[str], extra: Sequence[str], known: Collection[str]) -> str:
    """Returns a hint about unexpected arguments, or "". taken: the accepted arguments before them."""
    if command == "inspect":
        return f'; did you mean tfm inspect "{" ".join([*taken, *extra])}", in quotes?'
    if command == "export" and taken and len(extra) == 1:
        return f"; did you mean --output {extra[0]}?"
    found = [option for option in (suggest_option(word, known) for word in extra) if option]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def suggest_option(word: str, known: Collection[str]) -> str:
    """Returns the option for which an argument was probably meant, such as `--config demo`, or ""."""
    from transformer_cli.config.load import find_config

    meant = {"--config": find_config(word).is_file(), "--set": "=" in word}
    return next((f"{option} {word}" for option, is_so in meant.items() if is_so and option in known), "")
