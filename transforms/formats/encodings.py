"""Character encodings: which one a file has, and its content as UTF-8.

A byte order mark has the last word, then what the user says. What reads a file sees UTF-8 only: files
in anything else are transcoded on the way, so that formats know nothing of encodings.
"""

from __future__ import annotations

import codecs
import difflib
import encodings.aliases
import importlib.util
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schemas.errors import ConfigError, RecordError, RejectReason

__all__ = [
    "AUTO",
    "DETECTOR",
    "SAMPLE_BYTES",
    "UTF_8",
    "Encoding",
    "decide_encoding",
    "explain",
    "mark_of",
    "require_encoding",
    "transcode",
]

#: The name under which files go that are read as they are.
UTF_8 = "utf-8"
#: What ``--encoding`` says to have it guessed.
AUTO = "auto"
#: The package that guesses.
DETECTOR = "chardet"

#: How much a guess is made from.
SAMPLE_BYTES = 256 << 10

#: In the order in which they are tried: that of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

#: Python's own names for these leave the order of the bytes to the machine, or drop a mark.
_EXACT = {"utf-16": "utf-16-le", "utf-32": "utf-32-le", "utf-8-sig": UTF_8}

#: UTF-8 may hold these, and hardly does: UTF-16 without a mark, and the escapes of ISO 2022, always.
_OTHERS_USE = (b"\0", b"\x1b")

#: What stands for a byte that is not of the encoding: half a character, which no UTF-8 has.
_MARKED = re.compile(rb"\xed[\xb0-\xb3][\x80-\xbf]")
_MARK_ERRORS = "bert_data.mark"


class Encoding(NamedTuple):
    """An encoding, as a codec of Python's is called, and where it comes from, for people."""

    name: str
    decided_by: str


def require_encoding(name: str) -> None:
    """Refuses what ``--encoding`` may not be.

    Raises:
      ConfigError: no such encoding, or nothing is installed to guess it with.
    """
    if name == AUTO:
        if importlib.util.find_spec(DETECTOR) is None:
            raise ConfigError(
                "encoding",
                AUTO,
                'needs a detector: pip install "bert-data[encodings]", or name the encoding',
            )
        return
    _codec(name)


def mark_of(data: bytes) -> tuple[bytes, str] | None:
    """The byte order mark that some content begins with, and the encoding that it stands for."""
    return next((found for found in _MARKS.items() if data.startswith(found[0])), None)


def decide_encoding(sample: bytes, asked: str) -> Encoding:
    """The encoding of a file.

    Args:
      sample: its first bytes; for a guess, up to ``SAMPLE_BYTES``.
      asked: what ``--encoding`` says.

    Raises:
      ConfigError: see :func:`require_encoding`.
    """
    if marked := mark_of(sample):
        return Encoding(marked[1], "its byte order mark")
    if asked == AUTO:
        return _guess(sample)
    return Encoding(_codec(asked), f"--encoding {asked}")


def _codec(name: str) -> str:
    """Python's name of an encoding, and its own refusals in ours."""
    try:
        info = _look_up(name)
    except (LookupError, UnicodeError, ValueError) as error:
        known = {alias.replace("_", "-") for alias in encodings.aliases.aliases}
        known |= {each.replace("_", "-") for each in encodings.aliases.aliases.values()}
        alike = difflib.get_close_matches(name.lower().replace("_", "-"), sorted(known), 10)
        close = next(filter(_is_of_text, alike), None)
        hint = f"did you mean {close}?" if close else "give utf-8, latin-1, gb18030, ... or auto"
        raise ConfigError("encoding", name, f"is no text encoding of Python's; {hint}") from error
    return _EXACT.get(info.name, info.name)


def _look_up(name: str) -> codecs.CodecInfo:
    """Python's codec for text in files; an error of Python's own where there is none."""
    info = codecs.lookup(name)
    if not info._is_text_encoding or info.incrementaldecoder is None:
        raise LookupError(name)
    # Some exist for other things than files, and refuse to go on after an error.
    info.incrementaldecoder(_MARK_ERRORS).decode(b"a", True)
    return info


def _is_of_text(name: str) -> bool:
    """Whether it may be proposed: Python lists rot13 and the like among the encodings."""
    try:
        _look_up(name)
    except (LookupError, UnicodeError, ValueError):
        return False
    return True


def _guess(sample: bytes) -> Encoding:
    """UTF-8 wherever it can be; else what the detector says."""
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(sample)
        as_it_is = not any(byte in sample for byte in _OTHERS_USE)
    except UnicodeDecodeError:
        as_it_is = False
    if as_it_is:
        return Encoding(UTF_8, "its bytes are UTF-8")
    import chardet

    found = chardet.detect(sample)["encoding"]
    try:
        name = _codec(found or "")
    except ConfigError:
        return Encoding(UTF_8, "its bytes are of no encoding that is known")
    return Encoding(UTF_8 if name == "ascii" else name, "a guess from its bytes")


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Half a character with the first byte that is not of the encoding in it."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(0xDC00 | error.object[error.start]), error.end


codecs.register_error(_MARK_ERRORS, _mark)


def transcode(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """A file's content as UTF-8, piece by piece.

    What is not of the encoding becomes bytes that are not UTF-8, and costs the record that it is in.
    """
    decoder = codecs.getincrementaldecoder(encoding)(_MARK_ERRORS)
    for chunk in chunks:
        if text := decoder.decode(chunk):
            yield text.encode(errors="surrogatepass")
    if text := decoder.decode(b"", True):
        yield text.encode(errors="surrogatepass")


def explain(error: RecordError, data: bytes | memoryview, encoding: str) -> RecordError:
    """What to say of a refused record of a file that was transcoded."""
    found = _MARKED.search(data) if error.reason is RejectReason.UNDECODABLE else None
    if found is None:
        return error
    byte = ord(str(found[0], UTF_8, "surrogatepass")) & 0xFF
    return RecordError(
        error.reason, f"not {encoding}: 0x{byte:02x} in it; was it another --encoding?"
    )
