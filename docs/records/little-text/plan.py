"""The trainings of trainings.py, in order. Each job has a name, a config, and what its results should say about it."""

COMMIT = "6c974a31"
MODEL = {
    "d_model": 128,
    "num_heads": 4,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "d_ff": 512,
    "norm": "pre",
    "final_norm": True,
    "positions": "sinusoidal",
    "max_length": 256,
    "tie_embeddings": "all",
    "embedding_init": "normal",
    "dropout": 0.1,
}
TRAINING = {
    "epochs": 30,
    "batch_size": 2048,
    "batch_by": "tokens",
    "optimizer": "muon",
    "learning_rate": 1.5e-2,
    "schedule": "cosine",
    "warmup_steps": 50,
    "betas": [0.9, 0.98],
    "eps": 1e-9,
    "precision": "bfloat16",
    "shards": 1,
    "num_threads": 1,
}


def job(
    kind, n, seed=1, source="de", target="en", *, vocab=None, epochs=None, model=None, training=None, data=None, **more
):
    """One training on n pairs. The defaults are those of `tfm prepare FILE FILE`."""
    name = f"{source}-{target}-{n}-s{seed}-{kind}"
    files = {split: {"source": f"{split}.{source}", "target": f"{split}.{target}"} for split in ("valid", "test")}
    sides = {"source": f"s{seed}/{n}.{source}", "target": f"s{seed}/{n}.{target}"}
    config = {
        "name": name,
        "data": {
            "corpus": "files",
            "source": source,
            "target": target,
            "tokens": "subwords",
            "subwords": {"vocab_size": vocab or max(500, min(6000, n // 2)), "algorithm": "bpe"},
            "joint_vocabulary": True,
            "files": {"train": sides, **files},
            **(data or {}),
        },
        "model": {**MODEL, **(model or {})},
        "training": {
            **TRAINING,
            "epochs": epochs or max(3, min(30, 300_000 // n)),
            "seed": seed,
            "validate_every": 50 if n < 5000 else 100,
            **(training or {}),
        },
    }
    about = {"kind": kind, "pairs": n, "seed": seed, "source": source, "target": target}
    return {"name": name, "config": config, "about": about, **more}


def leak(text, seed):
    """Model A has other sources of the test targets in its training text, model B has none."""
    files = {
        "train": [f"leak/{text}.tsv"],
        "valid": ["leak/valid.tsv"],
        "test": ["leak/test.tsv"],
        "test_2016_flickr": {"source": "test.en", "target": "test.de"},
    }
    each = job("leak", 9400, seed, "en", "de", vocab=5000, epochs=6, data={"files": files})
    each["name"] = each["config"]["name"] = f"leak-{text}-s{seed}"
    each["about"]["kind"] = f"leak {text}"
    return each


AT_END = {"validate_every": 100_000}  # the last step is validated, and its weights are the best checkpoint
EPOCHS = {1000: 30, 2000: 30, 5000: 12, 10_000: 6}
NO_DROPOUT = {"dropout": 0.0}  # as the config `demo`


def curve(n, seed=1, source="de", target="en"):
    if n == 29_000:  # the config `demo`, in one thread
        return job("curve", n, seed, source, target, vocab=6000, epochs=3, model=NO_DROPOUT, training=AT_END)
    return job("curve", n, seed, source, target, epochs=EPOCHS[n], training=AT_END)


def remedy(kind, n, *, model=None, training=None, **more):
    return job(
        kind, n, epochs=more.pop("epochs", EPOCHS[n]), model=model, training={**AT_END, **(training or {})}, **more
    )


def both_directions(n=29_000, epochs=3, vocab=6000, model=NO_DROPOUT):
    """One model of two directions: each source begins with <2en> or <2de>."""
    train = "train" if n == 29_000 else n
    files = {"train": {"source": f"both/{train}.source", "target": f"both/{train}.target"}}
    for name in ("valid", "valid_de_en", "valid_en_de", "test_de_en", "test_en_de"):
        files[name] = {"source": f"both/{name}.source", "target": f"both/{name}.target"}
    symbols = {"subwords": {"vocab_size": vocab, "algorithm": "bpe", "user_defined_symbols": ["<2en>", "<2de>"]}}
    each = job("both", n, epochs=epochs, model=model, training=AT_END, data={"files": files, **symbols})
    each["name"] = each["config"]["name"] = "both-directions-s1" if n == 29_000 else f"both-directions-{n}-s1"
    return each


def back_translated(n, epochs):
    """The pairs, and 8,000 more captions of the target side, translated by the model of the other direction."""
    run, source, target = f"en-de-{n}-s1-curve", f"back/{n}.de", f"back/{n}.en"
    command = ["translate", "--run", run, "-i", f"s1/rest-{n}.en", "-o", f"back/rest-{n}.de"]
    files = {split: {"source": f"{split}.de", "target": f"{split}.en"} for split in ("valid", "test")}
    files["train"] = {"source": source, "target": target}
    return job(
        "back-translation",
        n,
        vocab=3000,
        epochs=epochs,
        training=AT_END,
        data={"files": files},
        before=[command],
        join=[[f"s1/{n}.de", f"back/rest-{n}.de", source], [f"s1/{n}.en", f"s1/rest-{n}.en", target]],
    )


WORDS = {"tokens": "words", "lowercase": False, "min_freq": 2, "joint_vocabulary": False}


def words(n):
    each = remedy("words", n, data=WORDS, model={"tie_embeddings": "target+output"})
    del each["config"]["data"]["subwords"]
    return each


def averaged(n):
    """Validates by BLEU nine or ten times, takes the best; the mean of the last five is a candidate, too."""
    bleu = {"best_checkpoint_metric": "bleu", "validate_every": {2000: 69, 5000: 60}[n], "average_checkpoints": 5}
    return remedy("averaging", n, training=bleu)


def other_text():
    """An existing model of other text: 24,668 German messages of the programs of a Linux system."""
    files = {"train": ["messages.tsv"]}
    for split in ("valid", "test"):
        files[split] = {"source": f"{split}.de", "target": f"{split}.en"}
    each = job("other-text", 24_668, vocab=6000, epochs=3, training=AT_END, data={"files": files})
    each["name"] = each["config"]["name"] = "messages-de-en-s1"
    return each


def taught(n, **training):
    """The model of other text, trained further on n pairs with the recipe of the curve."""
    base = "messages-de-en-s1"
    return remedy(
        "taught", n, vocab=6000, data={"tokenizer_from": base}, training={"initialize_from": base, **training}
    )


def kyoto(n, epochs):
    files = {"train": {"source": f"kyoto/{n}.ja", "target": f"kyoto/{n}.en"}}
    for split in ("valid", "test"):
        files[split] = {"source": f"kyoto/{split}.ja", "target": f"kyoto/{split}.en"}
    each = job(
        "kyoto",
        n,
        1,
        "ja",
        "en",
        vocab={5000: 4000, 20_000: 6000}[n],
        epochs=epochs,
        training=AT_END,
        data={"files": files},
    )
    each["name"] = each["config"]["name"] = f"kyoto-ja-en-{n}-s1"
    return each


DROPOUT = {"model": {"dropout": 0.3}, "training": {"batch_size": 1024, **AT_END}}

JOBS = [
    job("prepare", 2000),
    leak("A", 1),
    leak("B", 1),
    job("dropout", 2000, epochs=20, **DROPOUT),
    curve(5000),
    curve(10_000),
    curve(1000),
    remedy("dropout-alone", 2000, model={"dropout": 0.3}),
    curve(29_000),
    curve(29_000, 1, "en", "de"),
    both_directions(),
    curve(2000, 1, "en", "de"),
    remedy("few-subwords", 2000, vocab=500),
    back_translated(2000, 8),
    remedy("few-subwords", 5000, vocab=1000),
    curve(5000, 1, "en", "de"),
    other_text(),
    averaged(2000),
    back_translated(5000, 6),
    taught(2000),
    curve(2000, 2),
    both_directions(2000, 15, 1000, {}),
    curve(5000, 2),
    taught(5000),
    remedy("small", 2000, model={"d_model": 64, "d_ff": 256}),
    curve(10_000, 1, "en", "de"),
    averaged(5000),
    curve(1000, 1, "en", "de"),
    remedy("dropout", 5000, model={"dropout": 0.3}),
    curve(1000, 2),
    curve(10_000, 2),
    remedy("small", 5000, model={"d_model": 64, "d_ff": 256}),
    # not finished: kyoto(5000, 12); curve(29_000, 2); words(2000); words(5000); kyoto(20_000, 3)
]
BEAM = ["de-en-2000-s1-back-translation", "de-en-5000-s1-back-translation"]  # also scored with a beam of 5
REPORTED = [each["name"] for each in JOBS]


def CONFIG(name):
    return next(each["config"] for each in JOBS if each["name"] == name)
