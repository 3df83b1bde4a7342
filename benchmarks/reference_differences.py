"""What ``--exact_reference`` and our own rows differ in, measured on the same documents.

    python -m benchmarks.reference_differences FILE[,FILE...] ... --vocab_file vocab.txt [--builds]

Every argument is a corpus in BERT's text format, its files in order; a column for each. A cell is
"the script's / ours". ``--builds`` builds each with both as well, in one process, and compares the time.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.config import BuildConfig
from pipeline.run import build
from schemas.arrow import id_dtype, token_batch
from transforms.examples import ExampleOptions, ExampleStream, SpecialTokens
from transforms.reference_documents import read_group
from transforms.reference_examples import ReferenceStream, gather_group, group_batch
from transforms.reference_tokenizer import ReferenceEncoder, reference_vocabulary, vocab_words
from transforms.token_blocks import gather_block
from transforms.tokenization import Encoder
from transforms.vocabulary import Vocabulary, load_tokenizer


@dataclasses.dataclass
class Corpus:
    """One corpus, read once as the script reads it."""

    files: list[str]
    vocabulary: Vocabulary
    options: ExampleOptions

    def __post_init__(self) -> None:
        encoder = ReferenceEncoder(self.vocabulary)
        self.documents = read_group([(file, "none") for file in self.files], encoder)
        self.apart = sum(len(read_group([(file, "none")], encoder).keys) for file in self.files)
        size = self.vocabulary.vocab_size
        self.schema = token_batch(size)
        self.batch = group_batch(self.documents, vocab_size=size)

    def special(self, random_ids: np.ndarray) -> SpecialTokens:
        names = ("cls_id", "sep_id", "mask_id", "unk_id", "is_subword")
        return SpecialTokens(
            **{name: getattr(self.vocabulary, name) for name in names},
            random_ids=random_ids.astype(id_dtype(self.vocabulary.vocab_size)),
        )

    def scripts(self, batch: pa.RecordBatch, length: int, cap: int) -> Rows:
        special = self.special(vocab_words(self.vocabulary))
        block = gather_group([batch], self.schema)
        return Rows(
            ReferenceStream(
                block, self.options, special, max_seq_length=length, max_predictions_per_seq=cap
            ),
            self.vocabulary,
        )

    def ours(self, batch: pa.RecordBatch, length: int, cap: int) -> Rows:
        special = self.special(self.vocabulary.regular_ids)
        block = gather_block([batch], self.schema)
        return Rows(
            ExampleStream(
                block, self.options, special, max_seq_length=length, max_predictions_per_seq=cap
            ),
            self.vocabulary,
        )


class Rows:
    """The rows of a stream, and shares of them."""

    def __init__(self, stream: ReferenceStream | ExampleStream, vocabulary: Vocabulary):
        self.table = pa.Table.from_batches(list(stream), stream.schema)
        self.counts = stream.counts
        self._vocabulary = vocabulary

    def share(self, name: str, of: str = "examples") -> str:
        return f"{self.counts.get(name, 0) / max(1, self.counts[of]):.2%}"

    def copies(self) -> str:
        """NotNext whose B is from a document with the text of A's."""
        columns = [self.table.column(name).to_numpy() for name in ("a_document", "b_document")]
        label = self.table.column("next_sentence_label").to_numpy()
        return f"{np.count_nonzero((columns[0] == columns[1]) & (label == 1)) / max(1, label.sum()):.2%}"

    def odd_random(self) -> str:
        """Of the positions that hold another token than they had, and not [MASK]: no regular one."""
        now, was = self._predictions()
        replaced = now[(now != was) & (now != self._vocabulary.mask_id)]
        odd = ~np.isin(replaced, self._vocabulary.regular_ids)
        return f"{np.count_nonzero(odd) / max(1, len(replaced)):.2%}"

    def masked(self) -> str:
        predictions = sum(self.counts[f"{fate}_tokens"] for fate in ("mask", "random", "kept"))
        return f"{predictions / max(1, self.counts['example_tokens']):.2%}"

    def across(self) -> str:
        """Words with pieces on both sides of a [SEP] that were masked as one, a thousand rows."""
        return f"{1000 * self.counts.get('words_across_sep', 0) / max(1, len(self.table)):.2f}"

    def _predictions(self) -> tuple[np.ndarray, np.ndarray]:
        table = self.table.combine_chunks()
        ids, positions, labels = (
            table.column(name).chunk(0)
            for name in ("input_ids", "masked_lm_positions", "masked_lm_ids")
        )
        counts = np.diff(np.asarray(positions.offsets))
        starts = np.repeat(np.asarray(ids.offsets)[:-1], counts)
        at = starts + np.asarray(positions.values)
        return np.asarray(ids.values)[at], np.asarray(labels.values)

    def in_common(self, other: Rows) -> str:
        common = self._contents() & other._contents()
        return f"{common.total() / max(1, len(self.table)):.0%}"

    def _contents(self) -> collections.Counter[bytes]:
        ids = self.table.combine_chunks().column("input_ids").chunk(0)
        values, offsets = np.asarray(ids.values), np.asarray(ids.offsets)
        return collections.Counter(
            values[start:end].tobytes() for start, end in itertools.pairwise(offsets)
        )


def other_ids(corpus: Corpus) -> str:
    """Lines whose ids the library alone would give otherwise."""
    different = lines = 0
    encoder, plain = ReferenceEncoder(corpus.vocabulary), Encoder.of(corpus.vocabulary)
    for file in corpus.files:
        text = Path(file).read_text(encoding="utf8")
        theirs, ends = encoder.encode(text)
        ours, our_ends = plain.encode(pa.array(text.split("\n"), pa.large_string()))
        lines += len(ends) - 1
        if not (np.array_equal(theirs, ours) and np.array_equal(ends, our_ends)):
            different += sum(
                not np.array_equal(
                    theirs[ends[i] : ends[i + 1]], ours[our_ends[i] : our_ends[i + 1]]
                )
                for i in range(len(ends) - 1)
            )
    return f"{different:,} of {lines:,}"


def measure(corpus: Corpus) -> dict[str, str]:
    """A row's name, and its cell."""
    batch = corpus.batch
    backwards = batch.take(pa.array(np.arange(batch.num_rows)[::-1]))
    scripts, ours = corpus.scripts(batch, 128, 20), corpus.ours(batch, 128, 20)
    long_scripts, long_ours = corpus.scripts(batch, 512, 20), corpus.ours(batch, 512, 76)

    def both(say: Callable[[Rows], str]) -> str:
        return f"{say(scripts)} / {say(ours)}"

    return {
        "documents (files apart)": f"{len(corpus.documents.keys):,} / {corpus.apart:,}",
        "lines with other ids than the library's": other_ids(corpus),
        "examples": both(lambda rows: f"{len(rows.table):,}"),
        "NotNext": both(lambda rows: rows.share("not_next")),
        "NotNext since the chunk is one sentence": both(
            lambda rows: rows.share("single_segment_not_next")
        ),
        "of NotNext, B from A's own document or a copy": both(Rows.copies),
        "words masked across [SEP], in 1,000 rows": both(Rows.across),
        "of random replacements, special or [unused]": both(Rows.odd_random),
        "masked, length 512, default cap (20 / 76)": (
            f"{long_scripts.masked()} / {long_ours.masked()}"
        ),
        "rows kept when the documents come backwards": (
            f"{scripts.in_common(corpus.scripts(backwards, 128, 20))} / "
            f"{ours.in_common(corpus.ours(backwards, 128, 20))}"
        ),
    }


def build_times(files: Sequence[str], vocab_file: str, *, dupe_factor: int) -> dict[str, str]:
    """Seconds of whole builds in this process, one after the other; the first one is for warmth."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for run, exact in enumerate((True, False, True, False)):
            config = BuildConfig(
                input=tuple(files),
                format="text",
                vocab_file=vocab_file,
                output=f"{folder}/{run}",
                dupe_factor=dupe_factor,
                do_whole_word_mask=True,
                num_workers=1,
                exact_reference=exact,
            )
            start = time.perf_counter()
            build(config, quiet=True)
            seconds[exact] = time.perf_counter() - start
    ratio = seconds[True] / seconds[False]
    return {"seconds of a build": f"{seconds[True]:.1f} / {seconds[False]:.1f} ({ratio:.2f})"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--builds", action="store_true")
    given = parser.parse_args()
    vocabulary = reference_vocabulary(load_tokenizer(given.vocab_file, do_lower_case=None))
    options = ExampleOptions(
        masked_lm_prob=0.15,
        short_seq_prob=0.1,
        dupe_factor=given.dupe_factor,
        random_seed=12345,
        do_whole_word_mask=True,
        provenance=True,
    )
    columns = []
    for names in given.corpus:
        files = names.split(",")
        found = measure(Corpus(files, vocabulary, options))
        if given.builds:
            found |= build_times(files, given.vocab_file, dupe_factor=given.dupe_factor)
        columns.append((" + ".join(Path(file).name for file in files), found))
    print("| the script's / ours | " + " | ".join(name for name, _ in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in columns[0][1]:
        print(f"| {row} | " + " | ".join(found[row] for _, found in columns) + " |")


if __name__ == "__main__":
    main()
