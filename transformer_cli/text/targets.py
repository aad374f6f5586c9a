"""The tokens by which a model of several target languages is told which one to write: >>fra<< or <2fr>.

Such a token begins a sentence of the source. Knows no codecs.
"""

import re
from collections.abc import Iterable, Mapping

from transformer_cli.errors import ConfigError
from transformer_cli.text.languages import SHORT

TARGET_TOKEN = re.compile(r">>([^\s<>]+)<<|<2([A-Za-z][A-Za-z_-]*)>")
MANY = "mul"  # ISO 639-2: several languages
N_NAMED = 8


def targets_among(tokens: Iterable[str]) -> dict[str, str]:
    """Returns the languages of the target tokens among a vocabulary's: code → token, such as {"fr": ">>fra<<"}.

    A code is as short as ISO 639 has it; what stands behind it stays, as in pt_br.
    """
    found = ((TARGET_TOKEN.fullmatch(token), token) for token in tokens)
    return {_short(match[1] or match[2]): token for match, token in found if match}


def begins_with_target(text: str, targets: Mapping[str, str]) -> bool:
    """Whether a sentence names the language that it is to be translated into; <2br> may be markup."""
    found = TARGET_TOKEN.match(text.lstrip())
    return bool(found and targets and (found[1] or found[0] in targets.values()))


def token_of(language: str, targets: Mapping[str, str]) -> str:
    """Returns the token of a language, whose code may have two letters or three. Raises ConfigError."""
    written = {code.lower().replace("-", "_"): token for code, token in targets.items()}
    token = written.get(_short(language.lower()).replace("-", "_"))
    if token is None:
        if not targets:
            raise ConfigError(f"--to: {language}: the model translates into one language only; leave it out")
        some = ", ".join(sorted(targets)[:N_NAMED]) + (", …" if len(targets) > N_NAMED else "")
        raise ConfigError(f"--to: {language} is not a language that the model writes; choose one of {some}")
    return token


def _short(code: str) -> str:
    main = re.split("[-_]", code, maxsplit=1)[0]
    return SHORT.get(main, main) + code[len(main) :]
