"""What the audit holds the rows to: the rules in words, and the settings that they depend on.

The audit trusts nothing that was written. It shares with the steps that write rows the schemas and
the reading, splitting and tokenizing of text; every rule on rows is stated here once more.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from schemas.manifest import LABEL_CONVENTIONS, DataSet, Manifest

__all__ = [
    "RULES",
    "SPECIAL",
    "SUBWORD",
    "UNITS",
    "AuditRules",
    "RowSettings",
    "Rule",
    "Violation",
    "has_copies",
    "table_of_kinds",
]


class Rule(enum.IntEnum):
    """A rule on rows: its bit in the flags of a row. The words are in :data:`RULES`."""

    NUM_TOKENS = 0
    ROW_LENGTH = 1
    ID_RANGE = 2
    STRUCTURE = 3
    SPECIAL_INSIDE = 4
    TOKEN_TYPES = 5
    LABEL = 6
    PASSES = 7
    LIST_LENGTHS = 8
    POSITION_RANGE = 9
    POSITION_ORDER = 10
    MASKED_SPECIAL = 11
    PREDICTIONS = 12
    TOO_FEW_PREDICTIONS = 13
    HALF_WORD = 14
    RANDOM_SPECIAL = 15
    UNIT_FATE = 16
    CONTINUES_WORD = 17
    SENTENCE_SPAN = 18
    IS_NEXT = 19
    NOT_NEXT = 20
    SENTENCE_ORDER = 21
    UNKNOWN_DOCUMENT = 22
    WRONG_BLOCK = 23
    TEXT = 24
    TRUNCATION = 25
    DUPE_PASS = 26
    SAME_MASKS = 27
    DOCUMENTS = 28


#: The rules in words: what holds of every row.
RULES: dict[Rule, str] = {
    Rule.NUM_TOKENS: "num_tokens is the length of input_ids",
    Rule.ROW_LENGTH: "a row has a text and at most max_seq_length tokens",
    Rule.ID_RANGE: "every id is one of the vocabulary",
    Rule.STRUCTURE: "a row is [CLS] A [SEP] B [SEP], or [CLS] tokens [SEP] for mlm; no part is empty",
    Rule.SPECIAL_INSIDE: "the text, unmasked, holds no [CLS], [SEP], [PAD] or [MASK]",
    Rule.TOKEN_TYPES: "token_type_ids are 0 up to the first [SEP] and 1 after it",
    Rule.LABEL: "next_sentence_label is 0 or 1",
    Rule.PASSES: "there are masks for every pass",
    Rule.LIST_LENGTHS: "lists that belong together have the same length",
    Rule.POSITION_RANGE: "every masked position is inside its row",
    Rule.POSITION_ORDER: "masked positions ascend, and none comes twice",
    Rule.MASKED_SPECIAL: "[CLS], [SEP], [PAD] and [MASK] are never to be predicted",
    Rule.PREDICTIONS: "as many predictions as length and probability ask for, capped",
    Rule.TOO_FEW_PREDICTIONS: "no word is left out that would have fitted",
    Rule.HALF_WORD: "all pieces of a word are masked, or none",
    Rule.RANDOM_SPECIAL: "a random replacement is a regular token",
    Rule.UNIT_FATE: "what shares one fate is all [MASK], or has none",
    Rule.CONTINUES_WORD: "continues_word is true for the later pieces of a word, and nowhere else",
    Rule.SENTENCE_SPAN: "provenance names at least one sentence, and only sentences that there are",
    Rule.IS_NEXT: "label 0: B's sentences follow A's in the same document",
    Rule.NOT_NEXT: "label 1: B is of a document with another text than A's",
    Rule.SENTENCE_ORDER: "both segments are neighbours in one document, in the order of the label",
    Rule.UNKNOWN_DOCUMENT: "the document is one of the corpus",
    Rule.WRONG_BLOCK: "the document belongs to this shard",
    Rule.TEXT: "the row holds a contiguous run of the tokens of the sentences that provenance names",
    Rule.DUPE_PASS: "dupe_pass is one of the passes",
    Rule.SAME_MASKS: "no two passes of a row have the same masks, where that cannot be chance",
    Rule.DOCUMENTS: "a packed row names its documents: each but the first from its first sentence on, "
    "and a [SEP] between two where that is asked for",
    Rule.TRUNCATION: "tokens are cut off only from a row that is full, from the longer segment",
}

#: Bits of a token's kind.
SPECIAL, SUBWORD, REGULAR = 1, 2, 4

#: What shares one fate: a piece, a word, a run of words.
UNITS = {"piece": 0, "word": 1, "ngram": 2}


@dataclasses.dataclass(frozen=True)
class Violation:
    """A rule that does not hold somewhere.

    Attributes:
      rule: its name.
      words: the rule in words, or what is wrong.
      where: a path in the data set, or the name of a data set.
      row: of the shard; None if it is not about one row.
    """

    rule: str
    words: str
    where: str
    row: int | None = None


class RowSettings(NamedTuple):
    """What the compiled rules need to know: numbers and truth values only."""

    max_seq_length: int
    max_predictions: int
    shortest: int
    pairs: bool
    sop: bool
    inner_sep: bool
    one_document: bool
    passes: int
    shared: bool
    continues: bool
    masked_lm_prob: float
    full_length: int
    exact_count: bool
    fill_up: bool
    whole_words: bool
    words_known: bool
    unit: int
    regular_only: bool
    exact_reference: bool
    vocab_size: int
    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    bits_masked: float
    bits_kept: float
    bits_random: float


@dataclasses.dataclass(frozen=True)
class AuditRules:
    """Everything that rows of one data set are held to.

    Attributes:
      settings: for the kernels.
      kinds: uint8[vocabulary], bits ``SPECIAL``, ``SUBWORD``, ``REGULAR``.
      objective, masking, layout, provenance: decide the columns.
      metadata: what the shards say of themselves.
      copies: some documents are in the data set several times, so that rows may be as well.
      complete: every sentence (for mlm: token) of the corpus is in each pass, see ``audit_corpus``.
    """

    settings: RowSettings
    kinds: np.ndarray
    objective: str
    masking: str
    layout: str
    provenance: bool
    metadata: dict[str, str]
    dupe_factor: int
    copies: bool
    complete: bool

    @property
    def random_ids(self) -> int:
        """How many ids a random replacement is drawn from."""
        regular = int(np.count_nonzero(self.kinds & REGULAR))
        return regular if self.settings.regular_only else self.settings.vocab_size

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        data_set: DataSet,
        kinds: np.ndarray,
        *,
        tokens_known: bool = True,
        words_known: bool = True,
    ) -> AuditRules:
        """The rules of a data set, from what its manifest says that it is.

        Args:
          manifest, data_set: what there is.
          kinds: of all tokens, see :func:`table_of_kinds`.
          tokens_known: which tokens are regular; not so without the tokenizer.
          words_known: whether the table tells which tokens continue a word.
        """
        config, tokenizer = manifest.configuration, manifest.tokenizer
        pairs, shared = manifest.objective != "mlm", manifest.layout == "shared"
        static = manifest.masking == "static"
        whole_words = bool(config.get("do_whole_word_mask"))
        ngrams = config.get("max_ngram_size", 1) > 1
        packed = config.get("mlm_packing", "full") == "full"
        inner_sep = bool(config.get("sep_between_documents")) and packed and not pairs
        unit = UNITS[config.get("mask_per", "piece")]
        if unit == UNITS["ngram"] and not ngrams:
            unit = UNITS["word"]
        if unit == UNITS["word"] and not whole_words:
            unit = UNITS["piece"]
        # ``##`` tells which token continues a word; not so where another tool found the words, or
        # where the first pieces are marked, of which the first of a sentence need no mark.
        segmented = config.get("word_segmenter", "none") not in ("none", None)
        words_known = words_known and not segmented
        if unit == UNITS["word"] and not words_known:
            unit = UNITS["ngram"]
        settings = RowSettings(
            max_seq_length=data_set.max_seq_length,
            max_predictions=data_set.max_predictions_per_seq,
            shortest=5 if pairs else 3,
            pairs=pairs,
            sop=manifest.objective == "sop",
            inner_sep=inner_sep,
            one_document=not pairs and not packed,
            passes=(int(config["dupe_factor"]) if shared else 1) if static else 0,
            shared=shared,
            continues=not static,
            masked_lm_prob=float(config["masked_lm_prob"]),
            full_length=data_set.max_seq_length - inner_sep,
            exact_count=not whole_words and not ngrams,
            fill_up=not ngrams,
            whole_words=whole_words,
            words_known=words_known,
            unit=unit,
            regular_only=tokens_known and config.get("random_tokens") == "regular",
            exact_reference=bool(config.get("exact_reference")),
            vocab_size=len(kinds),
            cls_id=_bounded(tokenizer.cls_id),
            sep_id=_bounded(tokenizer.sep_id),
            mask_id=_bounded(tokenizer.mask_id),
            unk_id=min(max(0, tokenizer.unk_id), len(kinds) - 1),
            **_bits_of_fates(config, kinds, tokens_known=tokens_known),
        )
        return cls(
            settings=settings,
            kinds=kinds,
            objective=manifest.objective,
            masking=manifest.masking,
            layout=manifest.layout,
            provenance=bool(config.get("provenance")),
            metadata=_metadata(manifest, data_set),
            dupe_factor=int(config["dupe_factor"]),
            copies=has_copies(manifest),
            complete=not {
                "nsp": False,
                "sop": config.get("single_segment") == "drop",
                "mlm": bool(config.get("drop_last")),
            }[manifest.objective],
        )


def _bits_of_fates(
    config: Mapping[str, Any], kinds: np.ndarray, *, tokens_known: bool
) -> dict[str, float]:
    """-log2 of the most that the probabilities of [MASK], the token itself, and another token can be."""
    mask, random, kept = (
        float(config.get(f"{name}_token_share", usual))
        for name, usual in (("mask", 0.8), ("random", 0.1), ("kept", 0.1))
    )
    regular = config.get("random_tokens") == "regular"
    drawn_from = np.count_nonzero(kinds & REGULAR) if regular else len(kinds)
    hit = random / max(1, drawn_from if tokens_known else 1)
    likely = {"masked": mask + hit, "kept": kept + hit, "random": hit}
    return {f"bits_{name}": -math.log2(p) if 0 < p < 1 else 0.0 for name, p in likely.items()}


def _bounded(token_id: int) -> int:
    """The id, or for what is far from being one, one that no token has."""
    return token_id if 0 <= token_id < 2**31 else -1


def _metadata(manifest: Manifest, data_set: DataSet) -> dict[str, str]:
    """What a shard has to say of itself."""
    labels = LABEL_CONVENTIONS[manifest.objective]
    said = {
        "tokenizer_digest": manifest.tokenizer.digest,
        "random_seed": str(manifest.random_seed),
        "max_seq_length": str(data_set.max_seq_length),
        "max_predictions_per_seq": str(data_set.max_predictions_per_seq),
    }
    if labels:
        said["next_sentence_label"] = ", ".join(f"{n} = {name}" for n, name in labels.items())
    return {f"bert_data.{name}": value for name, value in said.items()}


def has_copies(manifest: Manifest) -> bool:
    """Whether some documents are in the data set several times."""
    copies = manifest.counts.duplicate_documents > 0
    return copies and not manifest.configuration.get("deduplicate")


def table_of_kinds(
    *, vocab_size: int, special: set[int], is_subword: np.ndarray, regular_ids: np.ndarray
) -> np.ndarray:
    """uint8[vocabulary]: what each token is."""
    kinds = np.zeros(vocab_size, np.uint8)
    kinds[: len(is_subword)][is_subword[:vocab_size]] |= SUBWORD
    kinds[regular_ids[regular_ids < vocab_size]] |= REGULAR
    kinds[[i for i in special if 0 <= i < vocab_size]] |= SPECIAL
    return kinds
