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
DROPOUT = {"model": {"dropout": 0.3}, "training": {"batch_size": 1024, **AT_END}}

JOBS = [
    job("prepare", 2000),
    leak("A", 1),
    leak("B", 1),
    job("dropout", 2000, epochs=20, **DROPOUT),
    job("curve", 5000, epochs=12, training=AT_END),
    job("curve", 10_000, epochs=6, training=AT_END),
    job("curve", 1000, epochs=30, training=AT_END),
    job("dropout-alone", 2000, epochs=30, model={"dropout": 0.3}, training=AT_END),
]
REPORTED = [each["name"] for each in JOBS]


def CONFIG(name):
    return next(each["config"] for each in JOBS if each["name"] == name)
