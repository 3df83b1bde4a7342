"""What a corpus of any size comes to at each step of the graph, worked out from a data set that is there.

``python -m benchmarks.scale DATA_SET --corpus_text_bytes 130e6 --text_bytes 20e9 10e12`` prints the
table of ``docs/scale.md``. Bytes and counts are scaled from the manifest by the bytes of its text; rates
are those of ``docs/design.md`` and can be given. The number of blocks is what a build of that size would
choose.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence

from pipeline.prepare import default_num_shards
from schemas.manifest import Manifest, load_manifest

__all__ = ["Measured", "Volumes", "measure", "scale", "table"]

#: MB of text a core-second, of the whole build: 130 MB in 16.5 core-seconds, see docs/design.md.
MB_PER_CORE_SECOND = 130 / 16.5

#: A key, and the lengths of a sentence's lists, beside the tokens of a batch.
_KEY_BYTES, _SENTENCE_BYTES = 16, 4
#: Largest vocabulary whose ids are two bytes.
_TWO_BYTES = 65_536


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a data set says of its corpus, a byte of text each but for the last two.

    Attributes:
      documents, sentences, tokens, examples: how many.
      token_bytes: of an id.
      example_bytes: of an example in the shards.
    """

    documents: float
    sentences: float
    tokens: float
    examples: float
    token_bytes: int
    example_bytes: float


@dataclasses.dataclass(frozen=True)
class Volumes:
    """What a corpus comes to. Bytes unless the name says otherwise.

    Attributes:
      text: read, as UTF-8.
      documents, sentences, tokens, examples: how many.
      shuffled: what crosses the shuffle: the tokens with their keys and lengths.
      blocks: and shards of each length.
      block: the mean of what a group of the shuffle has.
      largest_block: of what a group has, if documents are all of the mean length: see ``scale``.
      written: the shards.
      core_hours: of the whole.
      cores_for_an_hour: that make it in one.
    """

    text: float
    documents: float
    sentences: float
    tokens: float
    examples: float
    shuffled: float
    blocks: int
    block: float
    largest_block: float
    written: float
    core_hours: float
    cores_for_an_hour: int


def measure(manifest: Manifest, *, text_bytes: float) -> Measured:
    """The shares of a data set.

    Args:
      manifest: of one length or more; examples and their bytes are those of all.
      text_bytes: of its corpus as UTF-8.
    """
    counts = manifest.counts
    examples = sum(shard.rows for data in manifest.data_sets for shard in data.shards)
    written = sum(shard.bytes for data in manifest.data_sets for shard in data.shards)
    return Measured(
        documents=counts.documents / text_bytes,
        sentences=counts.sentences / text_bytes,
        tokens=counts.tokens / text_bytes,
        examples=examples / text_bytes,
        token_bytes=2 if manifest.tokenizer.vocab_size <= _TWO_BYTES else 4,
        example_bytes=written / examples,
    )


def scale(
    measured: Measured, *, text_bytes: float, mb_per_core_second: float = MB_PER_CORE_SECOND
) -> Volumes:
    """What a corpus of ``text_bytes`` comes to.

    A document is in a block by chance: the bytes of a block spread around their mean like a sum of
    ``documents / blocks`` numbers, so that the largest of them is about ``sqrt(2 ln blocks)`` standard
    deviations above it. A single document that is longer than that makes a larger one.
    """
    documents = measured.documents * text_bytes
    sentences = measured.sentences * text_bytes
    tokens = measured.tokens * text_bytes
    shuffled = tokens * measured.token_bytes + documents * _KEY_BYTES + sentences * _SENTENCE_BYTES
    blocks = default_num_shards(int(text_bytes))
    in_a_block = max(1.0, documents / blocks)
    above = math.sqrt(2 * math.log(max(2, blocks)) / in_a_block)
    core_seconds = text_bytes / 1e6 / mb_per_core_second
    return Volumes(
        text=text_bytes,
        documents=documents,
        sentences=sentences,
        tokens=tokens,
        examples=measured.examples * text_bytes,
        shuffled=shuffled,
        blocks=blocks,
        block=shuffled / blocks,
        largest_block=shuffled / blocks * (1 + above),
        written=measured.examples * text_bytes * measured.example_bytes,
        core_hours=core_seconds / 3600,
        cores_for_an_hour=math.ceil(core_seconds / 3600),
    )


def table(volumes: Sequence[Volumes]) -> str:
    """The volumes side by side, as Markdown."""
    rows = [
        ("ReadDocuments: text", [_bytes(v.text) for v in volumes]),
        ("documents", [_count(v.documents) for v in volumes]),
        ("SplitSentences: sentences", [_count(v.sentences) for v in volumes]),
        ("TokenizeSentences: tokens", [_count(v.tokens) for v in volumes]),
        ("GroupIntoBlocks: shuffled", [_bytes(v.shuffled) for v in volumes]),
        ("blocks, and shards of each length", [f"{v.blocks:,}" for v in volumes]),
        ("a group of the shuffle, mean", [_bytes(v.block) for v in volumes]),
        ("the largest by chance", [_bytes(v.largest_block) for v in volumes]),
        ("WriteExamples: examples", [_count(v.examples) for v in volumes]),
        ("shards", [_bytes(v.written) for v in volumes]),
        ("disk: shuffled and written", [_bytes(v.shuffled + v.written) for v in volumes]),
        ("core-hours", [f"{v.core_hours:,.1f}" for v in volumes]),
        ("cores for one hour", [f"{v.cores_for_an_hour:,}" for v in volumes]),
    ]
    head = ["", *(_bytes(v.text) for v in volumes)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join([name, *cells]) + " |" for name, cells in rows]
    return "\n".join(lines)


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            break
        number /= 1000
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"


def _count(number: float) -> str:
    for unit in ("", " thousand", " million", " billion"):
        if number < 999.5 or unit == " billion":
            break
        number /= 1000
    return f"{number:,.3g}{unit}" if number < 999.5 else f"{number:,.0f}{unit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data_set", help="a data set of the same kind of text and settings")
    parser.add_argument(
        "--corpus_text_bytes", type=float, required=True, help="of the text that it was made of"
    )
    parser.add_argument("--text_bytes", type=float, nargs="+", default=[20e9, 10e12])
    parser.add_argument("--mb_per_core_second", type=float, default=MB_PER_CORE_SECOND)
    given = parser.parse_args()
    measured = measure(load_manifest(given.data_set), text_bytes=given.corpus_text_bytes)
    print(
        table(
            [
                scale(measured, text_bytes=size, mb_per_core_second=given.mb_per_core_second)
                for size in given.text_bytes
            ]
        )
    )


if __name__ == "__main__":
    main()
