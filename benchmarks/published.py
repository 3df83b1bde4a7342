"""Published figures on the WikiText-103 test set, and what a build makes of the same text.

    python -m benchmarks.published wikitext-raw.test.txt --vocab_file bert-base-uncased-vocab.txt

Headings are dropped and the marks ` @-@ `, ` @,@ `, ` @.@ ` of WikiText's tokenizer undone. An
article begins at a heading of the first level.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import BuildConfig
from pipeline.run import build
from schemas.manifest import load_manifest, open_shards

#: Full rows of 128, their tokens without [CLS] and [SEP], and the predictions: 19 in each.
PUBLISHED = {"rows": 2_074, "tokens": 261_324, "predictions": 39_406}

#: Fates of the predictions, and how far a data set of this size may be off.
SHARES, TOLERANCE = {"[MASK]": 0.8, "random": 0.1, "kept": 0.1}, 0.005

_HEADING = re.compile(r"(=(?: =)*) .* =")


def articles(path: Path) -> Iterator[str]:
    """BERT's text format: a paragraph a line, a blank line after an article."""
    lines: list[str] = []
    for line in map(str.strip, path.read_text(encoding="utf8").split("\n")):
        if heading := _HEADING.fullmatch(line):
            if heading[1] == "=" and lines:
                yield "\n".join(lines) + "\n\n"
                lines = []
        elif line:
            lines.append(re.sub(r" @([-,.])@ ", r"\1", line))
    yield "\n".join(lines) + "\n"


def measure(corpus: Path, vocab_file: str, output: Path) -> dict[str, Any]:
    """Builds full rows without pairs, and counts what is in them."""
    config = BuildConfig(
        input=(str(corpus),),
        format="text",
        vocab_file=vocab_file,
        output=str(output),
        objective="mlm",
        drop_last=True,
        dupe_factor=1,
        num_shards=1,
    )
    build(config, quiet=True)
    manifest = load_manifest(output)
    (data_set,) = manifest.data_sets
    paths = open_shards(manifest, output, name=data_set.name, split=data_set.split)
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    predictions = [len(row) for row in rows.column("masked_lm_ids").to_pylist()]
    assert set(predictions) == {19}, set(predictions)
    rates = data_set.rates
    return {
        "rows": rows.num_rows,
        "tokens": int(np.sum(rows.column("num_tokens").to_numpy())) - 2 * rows.num_rows,
        "predictions": sum(predictions),
        "[MASK]": rates.mask_token,
        "random": rates.random_token,
        "kept": rates.kept_token,
    }


def main() -> None:
    """Prints the table; fails where a figure is another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wikitext", type=Path)
    parser.add_argument("--vocab_file", required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text("".join(articles(given.wikitext)), encoding="utf8")
        found = measure(corpus, given.vocab_file, Path(folder, "out"))
    print("| | published | measured |\n|---|---|---|")
    for name, published in PUBLISHED.items():
        print(f"| {name} | {published:,} | {found[name]:,} |")
    for name, share in SHARES.items():
        print(f"| {name} | {share:.1%} | {found[name]:.2%} |")
    assert all(found[name] == published for name, published in PUBLISHED.items())
    assert all(abs(found[name] - share) < TOLERANCE for name, share in SHARES.items())


if __name__ == "__main__":
    main()
