"""Replaces members of a ZIP archive; the others keep their compressed bytes. Trusts nothing in the archive."""

import copy
import io
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from zipfile import BadZipFile, ZipFile

from transformer_cli.adapters.documents.blocks import Document
from transformer_cli.adapters.documents.parsed_file import ParsedFile, parse_marked
from transformer_cli.adapters.documents.xmltext import XmlEvent, decode_xml, xml_events
from transformer_cli.errors import DataError
from transformer_cli.text.file_formats import refuse_binary

MAX_MEMBERS = 10_000
MAX_UNPACKED_BYTES = 1 << 26  # of all members that are read, together
MEDIA = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".emf", ".wmf", ".bin", ".ttf", ".otf", ".odttf")
"""suffixes of members that are never parsed, whatever type a list of the archive gives them"""


class Archive:
    """An archive in memory."""

    def __init__(self, content: bytes, max_unpacked_bytes: int | None = None) -> None:
        """Raises DataError if it is not a ZIP archive, is damaged, or has too many or equally named members."""
        try:
            self._file = ZipFile(io.BytesIO(content))
        except (BadZipFile, struct.error, ValueError, OverflowError, OSError) as error:
            if content and not content.startswith(b"PK"):
                refuse_binary(content[:1000], "not a ZIP archive")
                raise DataError("not a ZIP archive, as its name says; give it the suffix of its format") from None
            what = error if content else "it is empty"
            raise DataError(f"not a complete ZIP archive ({what}); copy it again") from None
        self._content = content
        self._bytes_left = self._max_unpacked_bytes = max_unpacked_bytes or MAX_UNPACKED_BYTES
        self._infos = sorted(self._file.infolist(), key=lambda info: info.header_offset)
        if len(self._infos) > MAX_MEMBERS:
            raise DataError(f"an archive of more than {MAX_MEMBERS:,} files")
        self.names = [info.filename for info in self._infos]
        """the names of the members"""
        if len({*self.names}) < len(self.names):
            raise DataError("an archive with two files of the same name; save it again")
        for name in self.names:
            if name.startswith("/") or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/"):
                raise DataError(f"{name[:80]!r}: an archive with a file outside its folder; do not open it")

    @property
    def warnings(self) -> list[str]:
        is_signed = any(name.startswith("_xmlsignatures/") or name.endswith("signatures.xml") for name in self.names)
        return ["has a digital signature, which is not valid for the translation"] * is_signed

    def read(self, name: str) -> bytes | None:
        """Returns a member, or None if it does not exist.

        Raises DataError if it is damaged or encrypted, or if the members read so far are too large together.
        """
        if name not in self._file.NameToInfo:
            return None
        if self._file.NameToInfo[name].flag_bits & 1:
            raise DataError(f"{name[:80]}: encrypted; save the document without a password")
        try:
            with self._file.open(name) as member:
                content = member.read(self._bytes_left + 1)
        except (BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError, OSError) as error:
            raise DataError(f"{name[:80]}: cannot be unpacked ({error}); copy the file again") from None
        if len(content) > self._bytes_left:
            what = f"more than {self._max_unpacked_bytes >> 20} MiB with the parts before it"
            raise DataError(f"{name[:80]}: {what}; translate the document in parts")
        self._bytes_left -= len(content)
        return content

    def read_tags(self, name: str, prefixes: Mapping[str, str], *wanted: str) -> Iterator[XmlEvent]:
        """Yield the start tags with these names in a member that is XML, each with the text behind it.

        prefixes: see `xml_events`. Raises DataError as `read` and `xml_events` do.
        """
        found: XmlEvent | None = None
        for event in xml_events(decode_xml(self.read(name) or b"<a/>")[0], prefixes):
            if found:
                yield found._replace(text=event.text)
            found = event if event.kind == "start" and event.name in wanted else None

    def replace_members(self, changed: Mapping[str, bytes]) -> bytes:
        """Returns the archive with new contents for some members."""
        out = io.BytesIO()
        ends = [*(info.header_offset for info in self._infos[1:]), self._file.start_dir]
        with ZipFile(out, "w") as new:
            for info, end in zip(self._infos, ends, strict=True):
                entry = copy.copy(info)
                if info.filename in changed:
                    new.writestr(entry, changed[info.filename])
                    continue
                entry.header_offset = out.tell()
                out.write(self._content[info.header_offset : end])
                new.start_dir = out.tell()
                new.filelist.append(entry)
                new.NameToInfo[info.filename] = entry
            new.comment = self._file.comment
            new._didModify = True  # type: ignore[attr-defined]  # writes the directory even if no member was changed
        return out.getvalue()


def parse_members(
    archive: Archive,
    parsers: Mapping[str, Callable[[str, str], Document]],
    language: str,
    decode: Callable[[bytes], tuple[str, Callable[[str], bytes]]] = decode_xml,
) -> ParsedFile:
    """Parse members of an archive; those that it lacks, and MEDIA, are left out. Raises DataError.

    parsers: name of a member → takes its text and a language, as in `parse_marked`. language: see there. decode: see
    `decode_xml`.
    """
    names = (name for name in parsers if not name.lower().endswith(MEDIA))
    contents = {name: content for name in names if (content := archive.read(name)) is not None}
    texts = {name: decode(content) for name, content in contents.items()}

    def assemble(*parts: str) -> bytes:
        new = {name: encode(part) for (name, (_, encode)), part in zip(texts.items(), parts, strict=True)}
        return archive.replace_members({name: part for name, part in new.items() if part != contents[name]})

    def parse(language: str) -> list[Document]:
        return [parsers[name](text, language) for name, (text, _) in texts.items()]

    return ParsedFile(parse_marked(parse, language), assemble, warnings=archive.warnings)
