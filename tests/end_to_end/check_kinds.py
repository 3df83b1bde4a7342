"""The kinds of data sets that ``bert-data check`` is tried on."""

from __future__ import annotations

from typing import Any

#: Data sets that faults are planted in.
KINDS: dict[str, dict[str, Any]] = {
    "nsp": {"do_whole_word_mask": True, "num_shards": 2},
    "plain": {"max_seq_length": (64,)},
    "split": {"num_shards": 2, "validation_fraction": 0.3},
    "word": {"do_whole_word_mask": True, "mask_per": "word"},
    "sop": {"objective": "sop", "do_whole_word_mask": True},
    "mlm": {"objective": "mlm", "num_shards": 2},
    "none": {"masking": "none", "do_whole_word_mask": True},
    "shared": {"layout": "shared", "dupe_mode": "remask", "dupe_factor": 3},
}

#: And others that have to hold.
MORE_KINDS: dict[str, dict[str, Any]] = {
    "two lengths": {"max_seq_length": (16, 128), "dupe_factor": 2, "validation_fraction": 0.2},
    "empty shards": {"num_shards": 90, "dupe_factor": 1},
    "all tokens, n-grams": {
        "do_whole_word_mask": True,
        "max_ngram_size": 3,
        "mask_per": "ngram",
        "random_tokens": "all",
    },
    "remask": {"dupe_mode": "remask", "not_next_share": 0.3},
    "sop, dropped": {"objective": "sop", "single_segment": "drop", "max_seq_length": (32,)},
    "sop, unmasked": {"objective": "sop", "masking": "none", "max_seq_length": (16,)},
    "mlm, separated": {
        "objective": "mlm",
        "sep_between_documents": True,
        "max_seq_length": (512,),
        "do_whole_word_mask": True,
    },
    "mlm by document": {"objective": "mlm", "mlm_packing": "document", "masking": "none"},
    "mlm, full only": {"objective": "mlm", "drop_last": True, "short_seq_prob": 0.1},
    "mlm, shared": {
        "objective": "mlm",
        "layout": "shared",
        "dupe_mode": "remask",
        "max_ngram_size": 2,
    },
    "without provenance": {"provenance": False},
}
