"""Mutated files for every reader, for ``tests/unit/test_fuzz.py`` and, at length, ``benchmarks.fuzz``.

Whatever a file holds, reading it gives documents and rejects, or one of the errors that end a build.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import random
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pyarrow as pa

from schemas.errors import BuildError, ConfigError, RejectReason
from tests.unit.compressing import COMPRESS
from tests.unit.tables import CODECS, write_arrow, write_avro, write_parquet
from tests.unit.wiki_exports import export
from tests.unit.wiki_exports import page as wiki_page
from tests.web_archives import conversion, members, response
from tests.web_archives import page as web_page
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task

__all__ = ["LONGEST_SECONDS", "MOST_BYTES", "SEEDS", "Outcome", "fuzz", "mutate", "seed_file"]

#: One input may take so long, on a busy machine, and so much memory beyond what the process had.
LONGEST_SECONDS, MOST_BYTES = 60, 1 << 30

_TEXTS = [f"Größe {i}: a stone went slowly over the dark river. 人人生而自由。" for i in range(24)]


def _lines() -> bytes:
    return "".join(json.dumps({"text": text, "lang": "en"}) + "\n" for text in _TEXTS).encode()


def _blank_lines_between() -> bytes:
    return "\n\n".join(text.replace(". ", ".\n") for text in _TEXTS).encode()


def _table() -> pa.Table:
    index = pa.array([i % 5 for i in range(len(_TEXTS))], pa.int8())
    return pa.table(
        {
            "text": _TEXTS,
            "lang": pa.DictionaryArray.from_arrays(index, ["en", "de", "fr", "ja", "ru"]),
        }
    )


def _wiki() -> bytes:
    texts = [
        f"'''{text}''' {{{{box|a={{{{b}}}}}}}} [[Other|other]] <ref name=a>x</ref>\n== H ==\n* {text}"
        for text in _TEXTS[:8]
    ]
    return export(map(wiki_page, texts)).encode()


def _page(texts: list[str]) -> bytes:
    return web_page([text * 3 for text in texts]).encode()


def _archive() -> list[bytes]:
    """Its records."""
    pages = [response(_page(_TEXTS[i : i + 3])) for i in range(0, 9, 3)]
    return [*pages, conversion(_TEXTS[9]), response(_page(_TEXTS[10:12]))]


def _saved_state() -> str:
    """What ``datasets`` writes beside the rows of a data set."""
    state = {"_fingerprint": "0", "_split": "train", "_indices_data_files": None}
    return json.dumps({**state, "_data_files": [{"filename": "data-00000-of-00001.arrow"}]})


def _write_saved(folder: Path, state: bytes) -> None:
    folder.mkdir(exist_ok=True)
    write_arrow(folder / "data-00000-of-00001.arrow", _table(), rows=7)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_bytes(state)


def _book() -> bytes:
    start, end = (
        f"*** {word} OF THE PROJECT GUTENBERG EBOOK A BOOK ***\r\n" for word in ("START", "END")
    )
    return (start + "\r\n\r\n".join(_TEXTS) + "\r\n" + end).encode()


def _written(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path)
        return path.read_bytes()


def _of_bytes(name: str, content: Callable[[], bytes]) -> dict[str, Callable[[], bytes]]:
    """A stream, plain and in every compression, two members each."""

    def pack(codec: str) -> bytes:
        data = content()
        half = len(data) // 2
        return COMPRESS[codec](data[:half]) + COMPRESS[codec](data[half:])

    found: dict[str, Callable[[], bytes]] = {name: content}
    for codec in COMPRESS:
        if codec != "none":
            found[f"{name}.{codec}"] = lambda codec=codec: pack(codec)  # type: ignore[misc]
    return found


#: By the name of the file; what is before the first dot is the format.
SEEDS: dict[str, Callable[[], bytes]] = {
    **_of_bytes("jsonl.jsonl", _lines),
    "jsonl.utf16.jsonl": lambda: codecs.BOM_UTF16_LE + _lines().decode().encode("utf-16-le"),
    "text.txt": _blank_lines_between,
    "prose.txt": _blank_lines_between,
    "gutenberg.txt": _book,
    "mediawiki.xml": _wiki,
    "mediawiki.xml.bz2": lambda: COMPRESS["bz2"](_wiki()),
    "mediawiki.utf16.xml": lambda: codecs.BOM_UTF16_BE + _wiki().decode().encode("utf-16-be"),
    "warc.warc": lambda: b"".join(_archive()),
    "warc.warc.gz": lambda: members(_archive()),
    "warc.crawl.wet": lambda: b"".join(map(conversion, _TEXTS[:12])),
    "html.html": lambda: _page(_TEXTS),
    "saved.state.json": lambda: _saved_state().encode(),
    "parquet.parquet": lambda: _written(lambda p: write_parquet(p, _table(), row_group_size=7)),
    "arrow.arrow": lambda: _written(lambda p: write_arrow(p, _table(), rows=7)),
    "arrow.file.arrow": lambda: _written(
        lambda p: write_arrow(p, _table(), rows=7, file_format=True)
    ),
    **{
        f"avro.{codec}.avro": lambda codec=codec: _written(  # type: ignore[misc]
            lambda p: write_avro(p, [{"text": text} for text in _TEXTS], codec=codec)
        )
        for codec in CODECS
    },
}


@dataclasses.dataclass
class Outcome:
    """What became of some inputs.

    Attributes:
      inputs: how many were read.
      documents, rejects: what came of them.
      refused: inputs that ended in an error of a line.
      slowest: seconds of process time of one input, at most.
      memory: bytes that the process has at most, beyond what it had before.
    """

    inputs: int = 0
    documents: int = 0
    rejects: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: int = 0


def seed_file(name: str) -> bytes:
    """The healthy file."""
    return SEEDS[name]()


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Bits flipped, bytes changed, put in, taken out, repeated or zeroed; cut; spliced with itself."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        if not found:
            break
        at, size = rng.randrange(len(found)), rng.choice([1, 1, 2, 4, 8, 64, 512])
        kind = rng.randrange(8)
        if kind == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            found[at : at + size] = rng.randbytes(size)
        elif kind == 2:
            found[at:at] = rng.randbytes(size)
        elif kind == 3:
            del found[at : at + size]
        elif kind == 4:
            del found[at:]
        elif kind == 5:
            found[at : at + size] = bytes([rng.choice([0, 0x7F, 0x80, 0xFF])]) * size
        elif kind == 6:
            other = rng.randrange(len(found))
            found[at:at] = found[other : other + size]
        else:
            other = rng.randrange(len(found))
            found = found[:at] + found[other:]
    return bytes(found)


def _too_long(unused_signum: int, unused_frame: FrameType | None) -> None:
    raise TimeoutError(f"an input took more than {LONGEST_SECONDS} s")


def fuzz(name: str, folder: Path, *, seeds: Iterator[int] | range) -> Outcome:
    """Reads mutations of a file; the last one is left in ``folder``, for who finds the process dead.

    Args:
      name: of ``SEEDS``.
      folder: for the files.
      seeds: of the mutations, one each.

    Raises:
      AssertionError: an input that broke the reader; its seed is named.
    """
    healthy, form = seed_file(name), name.partition(".")[0]
    path = folder / name.partition(".")[2]
    outcome = Outcome()
    _read(path, healthy, form, Outcome())  # imports and first use are not the input's
    at_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        for seed in seeds:
            signal.alarm(LONGEST_SECONDS)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            try:
                _read(path, mutate(healthy, random.Random(f"{name} {seed}")), form, outcome)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {error!r}") from error
            usage = resource.getrusage(resource.RUSAGE_SELF)
            outcome.inputs += 1
            outcome.slowest = max(outcome.slowest, usage.ru_utime - used)
            outcome.memory = max(outcome.memory, (usage.ru_maxrss << 10) - at_first)
            if outcome.memory > MOST_BYTES:
                raise AssertionError(f"{name}, seed {seed}: {outcome.memory:,} bytes of memory")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return outcome


def _read(path: Path, data: bytes, form: str, outcome: Outcome) -> None:
    """Reads a file in two ways of sharing it out; both have to find the same."""
    if form == "saved":  # its rows are those of the arrow kinds
        path, form = path.with_suffix(""), "auto"
        _write_saved(path, data)
    else:
        path.write_bytes(data)
    try:
        first = _rows(path, form, range_bytes=None)
        second = _rows(path, form, range_bytes=700)
    except (ConfigError, BuildError) as error:
        if "\n" in str(error).strip():
            raise ValueError(f"more than a line: {error}") from error
        outcome.refused += 1
        return
    assert sorted(first) == sorted(second), "it depends on how the file is shared out"
    for kind, _, reason in first:
        if kind == "rejects":
            assert reason in set(RejectReason)
        outcome.rejects += kind == "rejects"
        outcome.documents += kind == "documents"


def _rows(path: Path, form: str, *, range_bytes: int | None) -> list[tuple[str, str, str]]:
    """Output, source, and text or reason."""
    tasks = plan_reads(
        list_inputs([str(path)], format=form), num_stripes=2, range_bytes=range_bytes
    )
    rows: list[tuple[str, str, str]] = []
    for task in tasks:
        for output, batch in read_task(task, options=ReadOptions()):
            batch.validate(full=True)
            what = "text" if output == "documents" else "reason"
            rows += [(output, row["source"], row[what]) for row in batch.to_pylist()]
    return rows
