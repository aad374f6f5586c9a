"""docs/files.md names every module, as it says of itself."""

import transformer_cli
from list_files import PAGE, ROOMS, ROOT, page


def test_the_page_is_what_the_modules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python scripts/list_files.py`"


def test_every_room_is_on_the_page() -> None:
    folders = {
        path.parent.relative_to(ROOT / transformer_cli.__name__) for path in (ROOT / "transformer_cli").rglob("*.py")
    }
    assert {folder.parts[0] for folder in folders if folder.parts} == {room for room, _ in ROOMS if room}
