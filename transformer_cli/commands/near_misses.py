"""What a wrong command line was meant to be: what other programs call ours is in one dict, and difflib finds the rest.

Opens no run; imports no torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from transformer_cli.commands import completion

MEANT = {  # ours → what other programs call it; SYNONYMS has the same of settings
    "prepare": "preprocess tokenize binarize build-vocab download data",
    "train": "fit learn resume continue",
    "train --from RUN": "finetune fine-tune",
    "evaluate": "eval test validate bleu metrics judge",
    "score": "perplexity ppl logprob",
    "translate": "generate predict infer inference decode run interactive",
    "inspect": "attention visualize explain",
    "serve": "server web api start http",
    "curves": "plot history loss",
    "runs": "list ls models status",
    "export": "convert quantize",
    "config": "settings configs show defaults",
    "doctor": "info env debug",
    "--version": "version v",
    "--help": "help",
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
    "translate --from, translate --source-lang, translate --target-lang, translate --lang",
}
FILES = {"evaluate": ("--input", "--reference"), "score": ("--input", "--target")}  # what two files are


def of_command(word: str, known: Iterable[str]) -> str:
    """Returns how the error for an unknown command ends."""
    found = _meant(word, [*known, "--version", "--help"])
    return _asked(f"tfm {each}" for each in found) or "; `tfm -h` lists the commands"


def before_command(option: str, command: str | None) -> str:
    """Returns how the error for an option before the command ends. command: which one follows, if one does."""
    if command is not None:
        return f" before the command; write tfm {command} {option} …"
    return _asked(_meant(option, ["--version", "--help"])[:1]) or "; `tfm -h` lists them"


def of_option(command: str, option: str, args: Sequence[str], known: Mapping[str, bool]) -> str:
    """Returns how the error for an unknown option ends. args: the command line. known: the command's options,
    and whether they take a value.
    """
    for sentence, asked in SENTENCES.items():
        if f"{command} {option}" in asked.split(", "):
            return f": {sentence}"
    keys = []
    if "--set" in known:
        offered = completion.settings if "--config" in known or command == "config" else completion.decoding_settings
        keys = [each.removesuffix("=") for each in offered("")]
    place = next(number for number, word in enumerate(args) if word.startswith(option))
    value = args[place].partition("=")[2] or next(iter(args[place + 1 :]), "-")

    def written(meant: str) -> str:  # --set KEY=VALUE, --device cuda, --output FILE
        if not meant.startswith("-"):
            return f"--set {meant}={'VALUE' if value.startswith('-') else value}"
        return meant if value.startswith("-") or not known.get(meant) else f"{meant} {value}"

    return _asked(map(written, _meant(option, [*known, *keys]))) or f"; `tfm {command} -h` lists the options"


def of_arguments(command: str, taken: Sequence[str], extra: Sequence[str], known: Mapping[str, bool]) -> str:
    """Returns how the error for arguments that a command does not take ends. taken: those before them that it does."""
    words = [*taken, *extra]
    if command == "inspect":
        return _asked([f'tfm inspect "{" ".join(words)}", in quotes'])
    if command in FILES and len(words) == 2 and all(Path(word).is_file() for word in words):
        return _asked([" ".join(f"{option} {word}" for option, word in zip(FILES[command], words, strict=True))])
    open_options = [each for each in known if each != "--run" or not taken]  # an argument has named the run
    return _asked(option for option in (as_option(word, open_options) for word in extra) if option)


def as_option(word: str, known: Iterable[str]) -> str | None:
    """Returns the option with which an argument was meant, such as `--config demo`, or None."""
    from transformer_cli.config.load import find_config

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


def _meant(word: str, known: Sequence[str]) -> list[str]:
    """Returns which of ours a word means, options before settings, or else the two that look most like it."""
    from transformer_cli.config.mistakes import SYNONYMS

    names: dict[str, list[str]] = {}
    for ours in known:
        for name in {ours, ours.rpartition(".")[2]} if len(ours) > 2 else ():  # -i looks like too much
            names.setdefault(name.lstrip("-").replace("_", "-"), []).append(ours)
    for ours, theirs in (MEANT | SYNONYMS).items():
        if ours.partition(" ")[0] in known:
            for name in theirs.replace("_", "-").split():
                names.setdefault(name, []).append(ours)
    name = word.lstrip("-").lower().replace("_", "-")
    found = names.get(name) or [names[each][0] for each in get_close_matches(name, names, n=2, cutoff=0.7)]
    return list(dict.fromkeys([each for each in found if each.startswith("-")] or found))[:3]


def _asked(meant: Iterable[str]) -> str:
    found = " or ".join(meant)
    return f"; did you mean {found}?" if found else ""
