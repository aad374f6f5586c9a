"""Writes the German messages of the programs on this machine as pairs: python messages.py OUT.tsv"""

import gettext
import sys
from pathlib import Path


def pairs():
    for path in sorted(Path("/usr/share/locale/de/LC_MESSAGES").glob("*.mo")):
        with path.open("rb") as file:
            try:
                catalogue = gettext.GNUTranslations(file)._catalog
            except UnicodeDecodeError:  # an old catalogue in Latin-1
                continue
        for message, translation in catalogue.items():
            if isinstance(message, str) and message and translation and "\x04" not in message:
                one, other = (" ".join(text.split()) for text in (translation, message))
                if 1 < len(one.split()) <= 30 and "%" not in message and one != other:
                    yield one, other


found = list(dict.fromkeys(pairs()))
Path(sys.argv[1]).write_text("".join(f"{one}\t{other}\n" for one, other in found), encoding="utf-8")
