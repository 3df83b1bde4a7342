"""Builds a data set with two workers and checks every invariant of every row against the corpus.

    python -m benchmarks.verify books.jsonl --vocab_file vocab.txt

Token ids of the corpus come from the `tokenizers` library alone, sentence by sentence; every A and B
is looked up where the row's provenance says it is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from schemas.manifest import load_manifest
from tests.invariants import SUBWORDS, Corpus, check_data_set
from transforms.documents import read_task
from transforms.inputs import list_inputs, plan_reads
from transforms.sentences import split_batch
from transforms.vocabulary import Vocabulary, load_tokenizer


def read_corpus(inputs: list[str], vocabulary: Vocabulary, *, sentence_splitter: str) -> Corpus:
    """The distinct documents of the input, tokenized by the library."""
    tokenizer = Tokenizer.from_str(vocabulary.tokenizer_json)
    tokenizer.encode_special_tokens = True
    index_of: dict[bytes, int] = {}
    ids: list[np.ndarray] = []
    lengths: list[int] = []
    documents = [0]
    for task in plan_reads(list_inputs(inputs, format="auto"), num_stripes=1, range_bytes=None):
        for kind, batch in read_task(task):
            if kind == "rejects":
                continue
            split = split_batch(batch, language="en", sentence_splitter=sentence_splitter)
            for row in split.to_pylist():
                if row["key"] in index_of:
                    continue
                index_of[row["key"]] = len(index_of)
                encoded = tokenizer.encode_batch_fast(row["sentences"], add_special_tokens=False)
                sentences = [e.ids for e in encoded if e.ids]
                ids.append(np.array([t for s in sentences for t in s], np.uint32))
                lengths += [len(s) for s in sentences]
                documents.append(len(lengths))
    return Corpus(
        index_of=index_of,
        ids=np.concatenate(ids).astype(np.int64),
        sentence_offsets=np.cumsum([0, *lengths]),
        document_offsets=np.array(documents),
    )


def main() -> None:
    """Prints what was counted; an assertion fails where a row breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="+")
    parser.add_argument("--vocab_file", required=True)
    given, extra = parser.parse_known_args()
    vocabulary = load_tokenizer(given.vocab_file, do_lower_case=None)
    SUBWORDS[vocabulary.digest] = vocabulary.is_subword
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "out"
        command = [sys.executable, "-m", "pipeline", "build", *given.input, "--provenance"]
        command += ["--vocab_file", given.vocab_file, "--output", str(output)]
        command += ["--do_whole_word_mask", "--num_workers", "2", *extra]
        subprocess.run(command, check=True)
        manifest = load_manifest(output)
        splitter = manifest.configuration["sentence_splitter"]
        start = time.monotonic()
        corpus = read_corpus(given.input, vocabulary, sentence_splitter=splitter)
        counts = manifest.counts
        assert len(corpus.index_of) == counts.documents - counts.duplicate_documents
        seen = check_data_set(output, corpus=corpus)
        assert seen["rows"] == counts.examples
    print(f"every row checked in {time.monotonic() - start:.0f} s: {dict(seen)}")


if __name__ == "__main__":
    main()
