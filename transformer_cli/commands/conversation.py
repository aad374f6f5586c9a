"""`tfm translate` at a keyboard: a line is translated as soon as it is typed."""

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from transformer_cli.commands.options import as_text
from transformer_cli.errors import DataError
from transformer_cli.output.translations import long_lines_as_text
from transformer_cli.system import terminal
from transformer_cli.system.keyboard import converse

if TYPE_CHECKING:
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.translator import Options, Translation, Translator

Render = Callable[[int, "Translation"], str]
"""The number of a line and its translation → what is printed"""

log = logging.getLogger(__name__)


def answer_a_terminal(translator: "Translator", options: "Options", settings: "SearchSettings", render: Render) -> None:
    """Say which run translates what, then translate line by line, until Ctrl-D."""
    folders = ", ".join(str(each.folder) for each in translator.runs)
    data = translator.run.config.data
    log.info("%s: %s → %s", folders, data.source, data.target)
    log.info("One sentence per line. Ctrl-C drops a line, Ctrl-D ends.")

    def answer(number: int, line: str) -> None:
        terminal.note("translating")
        try:
            sentence = as_text(line, f"line {number}")
            (translation,) = translator.translations([sentence], options, settings, first_line=number)
        except DataError as error:  # one sentence too long is no reason to leave
            print(terminal.message(f"tfm: error: {error}"), file=sys.stderr)
        else:
            if translation.was_too_long:
                log.warning("%s", long_lines_as_text(1, [number], options.on_error))
            print(render(number, translation), flush=True)

    converse(answer, prompt=f"{terminal.on_one_line(data.source)}> ")
