"""Which runs can translate together: those that read and write the same ids. Knows codecs' files, but no models."""

from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run


def refuse_other_codecs(run: Run, other: Run) -> None:
    """Raises ConfigError, which names what differs, unless two runs have the same codecs. Their models may differ."""
    ours, theirs = _settings(run), _settings(other)
    differences = [f"{key}: {ours[key]} and {theirs[key]}" for key in ours if ours[key] != theirs[key]]
    if not differences:
        sums, other_sums = run.codecs.sums(run.folder), other.codecs.sums(other.folder)
        differences = sorted(name for name in sums | other_sums if sums.get(name) != other_sums.get(name))
    if differences:
        raise ConfigError(
            f"{run.folder} and {other.folder} cannot translate together, because their codecs differ "
            f"({'; '.join(differences)}); name runs of one dataset"
        )


def _settings(run: Run) -> dict[str, str]:
    """The settings that a codec is loaded with."""
    data = run.config.data
    return {
        "data.source": data.source,
        "data.target": data.target,
        "data.tokens": data.tokens,
        "data.lowercase": str(data.lowercased).lower(),
    }
