"""What a wrong command line was meant to be: options, arguments and commands as other programs call them.

Opens no run; imports no torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from transformer_cli.commands import completion

COMMANDS = {  # ours → what other programs call it
    "prepare": "preprocess tokenize binarize build-vocab download data",
    "train": "fit learn resume continue",
    "train --from RUN": "finetune fine-tune",
    "evaluate": "test validate bleu metrics judge",
    "score": "perplexity ppl logprob",
    "translate": "generate predict infer inference decode run interactive",
    "inspect": "attention visualize explain",
    "serve": "server web api start http",
    "curves": "plot history loss",
    "runs": "list ls models status",
    "export": "convert quantize ctranslate2",
    "config": "settings configs show defaults",
    "doctor": "info env debug",
    "--version": "version",
    "--help": "help",
}
OPTIONS = {  # likewise; see also SYNONYMS of settings
    "--run": "model checkpoint ckpt model-path model-dir load m",
    "--from": "resume-from init-from pretrained",
    "--input": "file input-file infile source-file src",
    "--output": "output-file output-dir out outfile save picture",
    "--reference": "ref references target tgt",
    "--source": "src-lang source-lang from",
    "--target": "t ref reference references tgt translations tgt-lang target-lang to",
    "--beam-size": "beam beams num-beams b k",
    "--n-best": "nbest num-return-sequences",
    "--max-tokens": "max-len max-length max-new-tokens",
    "--device cuda": "gpu gpus cuda",
    "--device cpu": "cpu no-cuda",
    "--fresh": "force overwrite restart",
    "--format html": "html markup",
    "--split-sentences": "split paragraphs sentences",
    "--quantization": "int8 int16 float16 bfloat16",
    "--host": "listen bind address ip",
    "--port": "p",
    "--api-key": "key token",
    "--cors-origin": "cors",
    "--line-buffered": "unbuffered",
}
SENTENCES = {  # what no option says → what it is said of
    "batches are as large as suits the machine": "translate --batch-size, evaluate --batch-size",
    "the sentence is an argument, in quotes": "inspect -i, inspect --input, inspect --file",
    "the same command, given again, goes on with an interrupted run": "train --resume, train --continue",
    "--config runs/NAME/config.yaml goes on with a run, and --set name=NAME names a new one": "train --run",
    "each system is an argument: a run, or a file of translations": "compare --run",
    "a run has one direction, which `tfm runs` shows; choose it by --run": "translate --source, translate --target, "
    "translate --from, translate --to, translate --source-lang, translate --target-lang, translate --lang",
}
FILES = {"evaluate": ("--input", "--reference"), "score": ("--input", "--target")}  # what two files are


def of_command(word: str, known: Iterable[str]) -> str:
    """Returns how the error for an unknown command ends."""
    name = word.lower()
    found = [ours for ours, words in COMMANDS.items() if name in words.split()] or get_close_matches(name, known)
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
    for sentence, asked in SENTENCES.items():
        if f"{command} {option}" in asked.split(", "):
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
    open_options = [each for each in known if each != "--run" or not taken]  # an argument has named the run
    return _meant(option for option in (as_option(word, open_options) for word in extra) if option)


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
    from transformer_cli.config.mistakes import SYNONYMS

    keys = []
    if "--set" in known:
        offered = completion.settings if "--config" in known or command == "config" else completion.decoding_settings
        keys = [each.removesuffix("=") for each in offered("")]
    of_settings = {key: words.split() for key, words in SYNONYMS.items() if key in keys}
    of_options = {meant: words.split() for meant, words in OPTIONS.items() if meant.partition(" ")[0] in known}
    own = {option: [option.lstrip("-")] for option in known if option.startswith("--")}
    own |= {key: [*dict.fromkeys((key.rpartition(".")[2], key))] for key in keys}
    found: dict[str, list[str]] = {}
    for table in (of_settings, of_options, own):  # a later one has the last word on what a word means
        of_table: dict[str, list[str]] = {}
        for meant, words in table.items():
            for word in words:
                of_table.setdefault(word.replace("_", "-"), []).append(meant)
        found |= of_table
    return found


def _written(meant: str, value: str | None) -> str:
    """Returns an option as it is written: --set KEY=VALUE, --device cuda, --output FILE."""
    if not meant.startswith("-"):
        return f"--set {meant}={'VALUE' if value is None else value}"
    return meant if value is None or " " in meant else f"{meant} {value}"


def _meant(found: Iterable[str]) -> str:
    found = list(found)
    return f"; did you mean {' or '.join(found)}?" if found else ""
