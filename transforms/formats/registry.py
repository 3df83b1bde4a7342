"""Every input format: its name, how it is known, how a file of it is shared out, and who reads it.

A new format is one entry here and a module of its own, which is imported when the first such file is
read: what only some corpora need is no worker's burden.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
import re
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import TYPE_CHECKING

from schemas.errors import ConfigError
from transforms.formats.encodings import AUTO, DETECTOR

if TYPE_CHECKING:
    from transforms.formats.records import Format, Table
    from transforms.reader import ReadOptions

__all__ = [
    "FORMATS",
    "FormatInfo",
    "Sharing",
    "open_format",
    "require_packages",
    "sharing_of",
    "versions_of_readers",
]


class Sharing(enum.Enum):
    """How a large file is read by several workers at once."""

    #: Ranges of bytes: where a record begins is known from any place in the file. A compressed file
    #: goes in stripes.
    RANGES = "ranges"
    #: Stripes, compressed or not: the stream has to be followed from its beginning.
    STRIPES = "stripes"
    #: Ranges of bytes of the file as it lies on disk: it has an index or marks of its own.
    CONTAINER = "container"
    #: Not at all: a file is one document.
    WHOLE = "whole"


@dataclasses.dataclass(frozen=True)
class FormatInfo:
    """What is known of a format without reading it.

    Attributes:
      make: makes its reader of the options; imports its module.
      sharing: how a large file is shared out.
      endings: of file names, in lower case, before an ending of compression.
      head: matches the first bytes of the content, without byte order mark and leading white space.
      head_words: what that is, for people: "it begins with {".
      a_sentence_a_line: whether lines are sentences.
      package: what has to be installed beside the project, if anything.
      extra: of the project, that installs it.
      one_encoding: whether a file is text, all of it in one encoding, which need not be UTF-8; what
        reads it sees UTF-8.
      packs_itself: compression is the format's own business: a file that is packed as a whole is refused.
      shows_its_beginning: whether the rest of a record, without its beginning, is never taken for a whole
        one: behind damage a record may begin with the first byte.
      expansion: bytes of text that a byte of a file, unpacked, stands for, about.
    """

    make: Callable[[ReadOptions], Format | Table]
    sharing: Sharing = Sharing.RANGES
    endings: tuple[str, ...] = ()
    head: re.Pattern[bytes] | None = None
    head_words: str = ""
    a_sentence_a_line: bool = False
    package: str | None = None
    extra: str = ""
    one_encoding: bool = True
    packs_itself: bool = False
    shows_its_beginning: bool = False
    expansion: float = 1.0


def _text(unused_options: ReadOptions) -> Format:
    from transforms.formats.bert_text import BertText

    return BertText()


def _prose(options: ReadOptions) -> Format:
    from transforms.formats.prose import Prose

    return Prose(options.document_separator)


def _jsonl(options: ReadOptions) -> Format:
    from transforms.formats.jsonl import JsonLines

    return JsonLines(options.text_field, options.id_field, options.language_field)


def _mediawiki(options: ReadOptions) -> Format:
    from transforms.formats.mediawiki import MediaWiki

    return MediaWiki(takes_language=options.language_field is not None)


def _warc(options: ReadOptions) -> Format:
    from transforms.formats.warc import Warc

    return Warc(options.max_document_bytes)


def _html(unused_options: ReadOptions) -> Format:
    from transforms.formats.html import Html

    return Html()


def _gutenberg(unused_options: ReadOptions) -> Format:
    from transforms.formats.gutenberg import Gutenberg

    return Gutenberg()


def _parquet(options: ReadOptions) -> Table:
    from transforms.formats.parquet import Parquet

    return Parquet(options.text_field, options.id_field, options.language_field)


def _avro(options: ReadOptions) -> Table:
    from transforms.formats.avro import Avro

    return Avro(options.text_field, options.id_field, options.language_field)


def _arrow(options: ReadOptions) -> Table:
    from transforms.formats.arrow_stream import ArrowStream

    return ArrowStream(options.text_field, options.id_field, options.language_field)


#: By the name that ``--format`` takes; in the order in which heads are tried.
FORMATS: dict[str, FormatInfo] = {
    "text": FormatInfo(_text, a_sentence_a_line=True),
    "prose": FormatInfo(_prose, Sharing.WHOLE),
    "jsonl": FormatInfo(
        _jsonl,
        endings=(".jsonl", ".json", ".ndjson"),
        head=re.compile(rb"\{"),
        head_words="it begins with {",
        shows_its_beginning=True,
    ),
    "mediawiki": FormatInfo(
        _mediawiki,
        # After declarations and comments; of a type of document no more is looked at.
        head=re.compile(rb"(?:<[?!][^<]*+)*+<mediawiki[\s>]"),
        head_words="it begins with <mediawiki",
        shows_its_beginning=True,
    ),
    "warc": FormatInfo(
        _warc,
        Sharing.STRIPES,
        endings=(".warc", ".wet"),
        head=re.compile(rb"WARC/1\.\d\r?\n"),
        head_words="it begins with WARC/1",
        shows_its_beginning=True,
        expansion=0.4,  # of pages it is a sixth, of WET files nearly all
        package="resiliparse",
        extra="web",
        one_encoding=False,
    ),
    "html": FormatInfo(
        _html,
        Sharing.WHOLE,
        endings=(".html", ".htm", ".xhtml"),
        head=re.compile(rb"(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE),
        head_words="it begins as a web page",
        expansion=0.2,
        package="resiliparse",
        extra="web",
        one_encoding=False,
    ),
    "gutenberg": FormatInfo(_gutenberg, Sharing.WHOLE),
    "parquet": FormatInfo(
        _parquet,
        Sharing.CONTAINER,
        endings=(".parquet",),
        head=re.compile(rb"PAR1"),
        head_words="it begins with PAR1",
        packs_itself=True,
        one_encoding=False,
        expansion=2,
    ),
    "avro": FormatInfo(
        _avro,
        Sharing.CONTAINER,
        endings=(".avro",),
        head=re.compile(rb"Obj\x01"),
        head_words="it begins with Obj and 1",
        packs_itself=True,
        one_encoding=False,
        expansion=2,
    ),
    "arrow": FormatInfo(
        _arrow,
        Sharing.CONTAINER,
        endings=(".arrow",),
        head=re.compile(rb"ARROW1\0\0|\xff\xff\xff\xff"),
        head_words="it begins as an Arrow stream",
        packs_itself=True,
        one_encoding=False,
    ),
}


def open_format(name: str, options: ReadOptions) -> Format | Table:
    """What reads files of a format.

    Raises:
      ConfigError: an option that the format cannot take, or a package that is not installed.
    """
    return FORMATS[name].make(options)


def require_packages(names: Iterable[str]) -> None:
    """See that files of these formats can be read.

    Raises:
      ConfigError: a package is not installed.
    """
    for name in sorted(set(names)):
        info = FORMATS[name]
        if info.package and importlib.util.find_spec(info.package) is None:
            raise ConfigError(
                "format",
                name,
                f'needs a package that is not installed: pip install "bert-data[{info.extra}]"',
            )


def versions_of_readers(names: Iterable[str], *, encoding: str) -> str | None:
    """Names and versions of the packages that decide what the text of these formats is.

    Args:
      names: of the formats.
      encoding: what ``--encoding`` says; auto is a guess, and another version may guess otherwise.

    Returns:
      None if nobody but this project decides it.
    """
    packages = {info.package for info in map(FORMATS.__getitem__, names) if info.package}
    packages |= {DETECTOR} if encoding == AUTO else set()
    found = [f"{package} {metadata.version(package)}" for package in sorted(packages)]
    return ", ".join(found) or None


def sharing_of(name: str, *, document_separator: str | None) -> Sharing:
    """How a file is shared out: prose is cut only where a line stands between documents."""
    if name == "prose" and document_separator is not None:
        return Sharing.RANGES
    return FORMATS[name].sharing
