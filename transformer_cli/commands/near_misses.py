"""What a wrong command line was meant to be: options, arguments and commands as other programs call them.

Opens no run; imports no torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from transformer_cli.commands import completion

COMMANDS = {  # what other programs call them
    **dict.fromkeys(("preprocess", "tokenize", "binarize", "build-vocab", "download", "data"), "prepare"),
    **dict.fromkeys(("fit", "learn", "resume", "continue"), "train"),
    **dict.fromkeys(("finetune", "fine-tune"), "train --from RUN"),
    **dict.fromkeys(("test", "validate", "bleu", "metrics", "judge"), "evaluate"),
    **dict.fromkeys(("perplexity", "ppl", "logprob"), "score"),
    **dict.fromkeys(("generate", "predict", "infer", "inference", "decode", "run", "interactive"), "translate"),
    **dict.fromkeys(("attention", "visualize", "explain"), "inspect"),
    **dict.fromkeys(("server", "web", "api", "start", "http"), "serve"),
    **dict.fromkeys(("plot", "history", "loss"), "curves"),
    **dict.fromkeys(("list", "ls", "models", "status"), "runs"),
    **dict.fromkeys(("convert", "quantize", "ctranslate2"), "export"),
    **dict.fromkeys(("settings", "configs", "show", "defaults"), "config"),
    **dict.fromkeys(("info", "env", "debug"), "doctor"),
    "version": "--version",
    "help": "--help",
}
OPTIONS: dict[str, tuple[str, ...]] = {  # likewise: those of our options, or keys, that may be meant
    **dict.fromkeys(("model", "checkpoint", "ckpt", "model-path", "model-dir", "path", "load"), ("--run",)),
    **dict.fromkeys(("resume-from", "init-from", "pretrained"), ("--from", "--like")),
    **dict.fromkeys(("file", "input-file", "infile", "source-file", "src", "text-file"), ("--input",)),
    **dict.fromkeys(("output-file", "output-dir", "out", "outfile", "save", "hyp"), ("--output", "name")),
    **dict.fromkeys(("ref", "references", "target", "tgt"), ("--reference", "--target")),
    **dict.fromkeys(("reference", "translations"), ("--target",)),
    **dict.fromkeys(("beam", "beams", "num-beams", "beamsize"), ("--beam-size", "decoding.beam_size")),
    **dict.fromkeys(("nbest", "num-return-sequences"), ("--n-best",)),
    **dict.fromkeys(("max-len", "max-length", "max-new-tokens"), ("--max-tokens", "model.max_length")),
    **dict.fromkeys(("alpha", "lenpen"), ("decoding.length_penalty",)),
    **dict.fromkeys(("lr", "rate"), ("training.learning_rate",)),
    **dict.fromkeys(("num-epochs", "max-epochs", "n-epochs"), ("training.epochs",)),
    **dict.fromkeys(("max-steps", "max-updates", "train-steps"), ("training.steps",)),
    **dict.fromkeys(("warmup", "warmup-updates"), ("training.warmup_steps",)),
    **dict.fromkeys(("layers", "num-layers"), ("model.num_encoder_layers", "model.num_decoder_layers")),
    **dict.fromkeys(("heads", "attention-heads"), ("model.num_heads",)),
    **dict.fromkeys(("hidden-size", "embed-dim", "dim"), ("model.d_model",)),
    **dict.fromkeys(("vocab-size", "vocab"), ("data.subwords.size", "data.max_words")),
    **dict.fromkeys(("fp16", "bf16", "amp"), ("training.precision",)),
    **dict.fromkeys(("workers", "num-workers", "threads"), ("training.num_threads",)),
    **dict.fromkeys(("gpu", "gpus", "cuda"), ("--device cuda", "training.device")),
    **dict.fromkeys(("cpu", "no-cuda"), ("--device cpu", "training.device")),
    **dict.fromkeys(("force", "overwrite", "restart"), ("--fresh",)),
    **dict.fromkeys(("html", "markup"), ("--format html",)),
    **dict.fromkeys(("int8", "float16", "bfloat16", "int16"), ("--quantization",)),
    **dict.fromkeys(("split", "paragraphs", "sentences"), ("--split-sentences",)),
    **dict.fromkeys(("listen", "bind", "address", "ip"), ("--host",)),
    **dict.fromkeys(("key", "token"), ("--api-key",)),
    **dict.fromkeys(("src-lang", "source-lang", "from"), ("--source",)),
    **dict.fromkeys(("tgt-lang", "target-lang", "to"), ("--target",)),
    **dict.fromkeys(("b", "k"), ("--beam-size",)),
    "m": ("--run",),
    "p": ("--port",),
    "e": ("training.epochs",),
    "cors": ("--cors-origin",),
    "picture": ("--output", "--attention"),
    "unbuffered": ("--line-buffered",),
}
SENTENCES = {  # what no option says
    **dict.fromkeys(
        ("translate --batch-size", "evaluate --batch-size"),
        "batches are as large as suits the machine, and no option changes that",
    ),
    **dict.fromkeys(("inspect -i", "inspect --input", "inspect --file"), "the sentence is an argument, in quotes"),
    **dict.fromkeys(
        ("train --resume", "train --continue"), "the same command, given again, goes on with an interrupted run"
    ),
    "train --run": "--config runs/NAME/config.yaml goes on with a run, and --set name=NAME names a new one",
    **dict.fromkeys(
        ("evaluate --metric", "evaluate --metrics"),
        "BLEU and chrF are printed together; --output FILE keeps the translations, which other programs can judge",
    ),
    **dict.fromkeys(
        (f"translate --{each}" for each in ("source", "target", "from", "to", "source-lang", "target-lang", "lang")),
        "a run has one direction, which `tfm runs` shows; choose it by --run",
    ),
}
FILES = {"evaluate": ("--input", "--reference"), "score": ("--input", "--target")}  # what two files are


def of_command(word: str, known: Iterable[str]) -> str:
    """Returns how the error for an unknown command ends."""
    name = word.lower()
    found = [COMMANDS[name]] if name in COMMANDS else get_close_matches(name, known)
    return _meant([f"tfm {each}" for each in found]) or "; `tfm -h` lists the commands"


def before_command(option: str, command: str | None) -> str:
    """Returns how the error for an option before the command ends. command: which one follows, if one does."""
    if command is not None:
        return f" before the command; write tfm {command} {option} …"
    return "; did you mean --version?" if option[1:].lstrip("-").lower().startswith("v") else "; `tfm -h` lists them"


def of_option(command: str, option: str, args: Sequence[str], known: Mapping[str, bool]) -> str:
    """Returns how the error for an unknown option ends. args: the command line. known: the command's options,
    and whether they take a value.
    """
    if sentence := SENTENCES.get(f"{command} {option}"):
        return f": {sentence}"
    place = next(number for number, word in enumerate(args) if word.startswith(option))
    behind = args[place].partition("=")[2] or next(iter(args[place + 1 :]), "-")
    value = None if behind.startswith("-") else behind
    words = _words(command, known)
    name = option.lstrip("-").lower().replace("_", "-")
    found = words.get(name) or [
        each for word in get_close_matches(name, words, n=2, cutoff=0.7) for each in words[word][:1]
    ]
    written = [_written(each, value if known.get(each, True) else None) for each in dict.fromkeys(found)]
    return _meant(written[:3]) or f"; `tfm {command} -h` lists the options"


def of_arguments(command: str, taken: Sequence[str], extra: Sequence[str], known: Mapping[str, bool]) -> str:
    """Returns how the error for arguments that a command does not take ends. taken: those before them that it does."""
    words = [*taken, *extra]
    if command == "inspect":
        return _meant([f'tfm inspect "{" ".join(words)}", in quotes'])
    if command in FILES and len(words) == 2 and all(Path(word).is_file() for word in words):
        return _meant([" ".join(f"{option} {word}" for option, word in zip(FILES[command], words, strict=True))])
    return _meant(option for option in (as_option(word, known) for word in extra) if option)


def as_option(word: str, known: Iterable[str]) -> str | None:
    """Returns the option with which an argument was meant, such as `--config demo`, or None."""
    from transformer_cli.config.configfile import find_config

    is_run = word in completion.runs() or Path(word, "run.json").is_file()
    folder = Path(word) if Path(word, "run.json").is_file() else Path("runs", word)
    meant = {
        f"--config {word}": find_config(word).is_file(),
        f"--set {word}": "=" in word,
        f"--split {word}": word in completion.splits(),
        f"--run {word}": is_run,
        f"--config {folder / 'config.yaml'}": is_run,
        f"--input {word}": Path(word).is_file(),
    }
    return next((each for each, is_so in meant.items() if is_so and each.partition(" ")[0] in known), None)


def _words(command: str, known: Mapping[str, bool]) -> dict[str, list[str]]:
    """Returns the words that mean an option of a command, or a setting that it takes, each with what it means."""
    words = {option.lstrip("-"): [option] for option in known if option.startswith("--")}
    keys = []
    if "--set" in known:
        offered = completion.settings if "--config" in known or command == "config" else completion.decoding_settings
        keys = [each.removesuffix("=") for each in offered("")]
    for key in keys:
        words.setdefault(key.rpartition(".")[2].replace("_", "-"), []).append(key)
        words.setdefault(key.replace("_", "-"), [key])
    for word, meant in OPTIONS.items():
        takes = [each for each in meant if each.partition(" ")[0] in known] or [each for each in meant if each in keys]
        if takes:
            words.setdefault(word, takes)
    return words


def _written(meant: str, value: str | None) -> str:
    """Returns an option as it is written: --set KEY=VALUE, --device cuda, --output FILE."""
    if not meant.startswith("-"):
        return f"--set {meant}={'VALUE' if value is None else value}"
    return meant if value is None or " " in meant else f"{meant} {value}"


def _meant(found: Iterable[str]) -> str:
    found = list(found)
    return f"; did you mean {' or '.join(found)}?" if found else ""
