"""Compiles the kernels, when an image is built and before tests: small builds of each kind, checked too.

A kernel is compiled anew for other types, so that a vocabulary of more than 65,536 entries is among them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pipeline.check import audit
from pipeline.config import BuildConfig
from pipeline.run import build

__all__ = ["KINDS", "main"]

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = ("the", "cat", "sat", "on", "mat", "##s", ".", ",")
_TEXT = "The cat sat on the mat. The mats sat on cats, the cat sat.\n" * 20
#: Longer than a row.
_ONE_SENTENCE = "the cat sat on cats, " * 40 + "the mats sat.\n"

#: Settings that lead to other kernels, or to others' types.
KINDS: tuple[dict[str, object], ...] = (
    {},
    {"do_whole_word_mask": True, "provenance": True},
    {"max_ngram_size": 3, "do_whole_word_mask": True, "mask_per": "ngram"},
    {"objective": "sop"},
    {"objective": "mlm"},
    {"dupe_mode": "remask", "layout": "shared"},
    {"masking": "none"},
    {"exact_reference": True},
)


def main() -> None:
    """Builds, in a folder that goes again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # As many different documents: of one, B would have no other to come from.
        documents = [_TEXT * n + _ONE_SENTENCE for n in range(1, 5)]
        records, lines = folder / "corpus.jsonl", folder / "corpus.txt"
        records.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
        lines.write_text("\n\n".join(text.replace(". ", ".\n") for text in documents))
        for size in (len(_WORDS), 1 << 16):
            vocab = folder / f"vocab{size}.txt"
            more = (f"x{n}" for n in range(size - len(_WORDS)))
            vocab.write_text("\n".join([*_SPECIAL, *_WORDS, *more]))
            for number, kind in enumerate(KINDS):
                corpus = str(lines if "exact_reference" in kind else records)
                values = {
                    "input": (corpus,),
                    "vocab_file": str(vocab),
                    "output": str(folder / f"out{size}-{number}"),
                    "num_workers": 1,
                    "num_shards": 1,
                }
                manifest = build(BuildConfig.from_values(values | kind), quiet=True)
                assert manifest is not None  # it was waited for
                if size < 1 << 16:
                    proved_by = [corpus] if "provenance" in kind else []
                    audit(str(values["output"]), manifest, corpus=proved_by, num_workers=1)


if __name__ == "__main__":
    main()
