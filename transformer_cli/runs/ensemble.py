"""Which runs can translate together: those that read and write the same ids. Knows codecs' files, but no models."""

from transformer_cli.config.yamltext import as_line
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run


def refuse_other_codecs(run: Run, other: Run) -> None:
    """Raises ConfigError, which names what differs, unless two runs have the same codecs. Their models may differ."""
    ours, theirs = run.config.data.of_codecs, other.config.data.of_codecs
    differing = [key for key in ours if key in theirs and ours[key] != theirs[key]]  # each kind of tokens has own keys
    differences = [f"{key}: {as_line(ours[key])} and {as_line(theirs[key])}" for key in differing]
    if not differences:
        sums, other_sums = run.codecs.sums(run.folder), other.codecs.sums(other.folder)
        differences = sorted(name for name in sums | other_sums if sums.get(name) != other_sums.get(name))
    if differences:
        raise ConfigError(
            f"{run.folder} and {other.folder} cannot translate together, because their codecs differ "
            f"({'; '.join(differences)}); name runs of one dataset"
        )
