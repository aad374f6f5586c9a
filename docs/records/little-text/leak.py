"""Builds the corpus of the leak: python leak.py WORK OLD_TFM NEW_TFM

WORK/runs/demo is the demo's run, WORK/leak/de and WORK/leak/en are captions of Multi30k, and WORK/leak/v1, v2 and v3
are the demo's English translations of WORK/leak/de. Writes x.tsv: 4 English versions of each of 2,750 German captions.
OLD_TFM (which holds out by the source alone) and NEW_TFM prepare it; the old split's text gives A.tsv, valid.tsv and
test.tsv. B.tsv is A.tsv without the pairs that share a side with valid.tsv or test.tsv; as many pairs of other captions
take their place.
"""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from transformer_cli.adapters.corpora.cleaning import sentence_hash

WORK = Path(sys.argv[1]).resolve()
CAPTIONS = 2_750
LANGUAGES = ("en", "de")
CONFIG = {
    "name": "leak",
    "data": {
        "corpus": "files",
        "source": "en",
        "target": "de",
        "tokens": "subwords",
        "joint_vocabulary": True,
        "subwords": {"vocab_size": 5000},
        "files": {"train": ["x.tsv"]},
        "held_out": {"valid": 0.02, "test": 0.08},
        "clean": ["empty", "copies", "markup", "length", "duplicates"],
    },
    "model": {"tie_embeddings": "all"},
}


def lines(name):
    return (WORK / "leak" / name).read_text(encoding="utf-8").rstrip("\n").split("\n")


def write(name, pairs):
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (WORK / "leak" / name).write_text(text, encoding="utf-8")


def split(data):
    """Returns the pairs of each split of the only dataset in a folder."""
    [folder] = [each.parent for each in data.glob("*/train.source.txt")]
    return {
        name: list(
            zip(
                *(
                    (folder / f"{name}.{side}.txt").read_text("utf-8").rstrip("\n").split("\n")
                    for side in ("source", "target")
                ),
                strict=True,
            )
        )
        for name in ("train", "valid", "test")
    }


def leaks(splits):
    """Returns how many held-out pairs have their source, and their target, in the training text."""
    found = {}
    known = [{sentence_hash(pair[side], LANGUAGES[side]) for pair in splits["train"]} for side in (0, 1)]
    for name in ("valid", "test"):
        found[name] = {"pairs": len(splits[name]), "targets": len({pair[1] for pair in splits[name]})}
        for side, label in enumerate(("sources in train", "targets in train")):
            found[name][label] = sum(sentence_hash(pair[side], LANGUAGES[side]) in known[side] for pair in splits[name])
    return found


versions = list(zip(lines("en"), lines("v1"), lines("v2"), lines("v3"), strict=True))
pairs = [
    [(source, target) for source in dict.fromkeys(group)] for group, target in zip(versions, lines("de"), strict=True)
]
write("x.tsv", [pair for group in pairs[:CAPTIONS] for pair in group])
(WORK / "leak/x.yaml").write_text(yaml.safe_dump(CONFIG))
about = {"pairs": sum(map(len, pairs[:CAPTIONS]))}
splits = {}
for name, tfm in (("before", sys.argv[2]), ("now", sys.argv[3])):
    data = WORK / f"leak/{name}"
    data.mkdir(exist_ok=True)
    if not list(data.glob("data/*")):
        done = subprocess.run([tfm, "prepare", "--config", "../x.yaml"], cwd=data, capture_output=True, text=True)
        (data / "printed").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, done.stderr
    splits[name] = split(data / "data")
    about[name] = {"train": len(splits[name]["train"]), **leaks(splits[name])}
old = splits["before"]
held_out = [
    {sentence_hash(pair[side], LANGUAGES[side]) for name in ("valid", "test") for pair in old[name]} for side in (0, 1)
]


def is_new(pair):
    return not any(sentence_hash(pair[side], LANGUAGES[side]) in held_out[side] for side in (0, 1))


clean = [pair for pair in old["train"] if is_new(pair)]
spare = [pair for group in pairs[CAPTIONS:] for pair in group if is_new(pair)]
assert len(clean) + len(spare) >= len(old["train"]), (len(clean), len(spare))
filled = clean + spare[: len(old["train"]) - len(clean)]
for name, some in (("A.tsv", old["train"]), ("B.tsv", filled), ("valid.tsv", old["valid"]), ("test.tsv", old["test"])):
    write(name, some)
about["A"] = {"train": len(old["train"]), **leaks(old)}
about["B"] = {"train": len(filled), "of A": len(clean), **leaks({**old, "train": filled})}
about["example"] = [f"{source} → {target}" for source, target in pairs[7]]
(WORK / "leak/about.json").write_text(json.dumps(about, indent=1, ensure_ascii=False))
