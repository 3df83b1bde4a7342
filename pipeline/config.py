"""The configuration of a build: one frozen dataclass, validated when it is made.

The metadata of a field (``pipeline.settings``) holds its help text, what it may be and what it
affects. The flags, their help and the fingerprint are made from that, so that a new field is one
declaration here. Names are those of the reference where it has the flag.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from pipeline.combinations import (
    check_together,
    default_predictions,
    far_predictions,
    without_effect,
)
from pipeline.settings import Choice, Number, Several, Switch, Text, checked, setting, whole
from schemas.errors import ConfigError
from transforms.formats.registry import FORMATS
from transforms.languages import AUTO
from transforms.splitters import SPLITTERS

__all__ = ["LATER_OTHERS", "LATER_SETTINGS", "MOST_SHARDS", "SETTINGS_BEFORE", "BuildConfig"]

#: The names of shards have five digits.
MOST_SHARDS = 99_999

_COUNT = Number(1, 2**31 - 1, "a whole number, at least 1")
_SHARE = Number(0, 1, "a number from 0 to 1", float)
#: The floats next to the ends of an open range.
_ABOVE_0, _BELOW_1 = 5e-324, 1 - 2**-53
_PROBABILITY = Number(_ABOVE_0, _BELOW_1, "a number between 0 and 1, both excluded", float)
_FRACTION = Number(0, _BELOW_1, "a number from 0 to 1, 1 excluded", float)
_LENGTHS = Several(
    whole(8, 32768), "whole numbers from 8 to 32768, none twice, such as 128 or 128,512", True
)
_PREDICTIONS = Several(
    whole(1, 32768), "whole numbers from 1 to 32768, one for each length, such as 20 or 20,76"
)
_LANGUAGE = Text(
    "a language code such as en or pt-BR, or auto",
    rf"{AUTO}|[A-Za-z]{{2,3}}([-_][A-Za-z0-9]{{1,8}})*",
)
_FILE, _DIR = Text("a path, not empty", metavar="FILE"), Text("a path, not empty", metavar="DIR")
_LINE = Text("a line, not empty, without white space around it", r"\S([^\r\n]*\S)?")
_PATHS = Several(_FILE, "paths or patterns, at least one, none empty")

_IN, _TEXT, _ROWS, _MASKS, _OUT, _RUN = "input", "text", "examples", "masks", "output", "running"

#: Fields that the first fingerprints did not know: left out where they are as they were then, so that
#: the same rows keep their fingerprint.
LATER_SETTINGS = frozenset(
    {
        "deduplicate",
        "drop_last",
        "dupe_mode",
        "exact_reference",
        "kept_token_share",
        "layout",
        "mask_per",
        "mask_token_share",
        "max_ngram_size",
        "mlm_packing",
        "not_next_share",
        "random_token_share",
        "reference_groups",
        "sep_between_documents",
        "single_segment",
        "split_long_sentences",
        "word_segmenter",
    }
)

#: Likewise of those that decide no rows, which no fingerprint knows: the first manifests lack them.
LATER_OTHERS = frozenset({"encoding", "min_document_chars", "split", "strict"})

#: What settings were that the first manifests lack, where it is not what they are by default now.
SETTINGS_BEFORE: dict[str, Any] = {"split_long_sentences": False}


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """What to build from what, and how. Values are checked and canonical once it exists.

    ``max_predictions_per_seq`` left empty, ``short_seq_prob`` and ``split_long_sentences`` left None are
    worked out.

    Raises:
      ConfigError: a value that is not allowed; names the field, the value and what is allowed.
    """

    input: tuple[str, ...] = setting(
        MISSING,
        _PATHS,
        _IN,
        "documents",
        "files or patterns to read, with commas or spaces between them",
    )
    vocab_file: str = setting(MISSING, _FILE, _IN, "documents", "vocab.txt or tokenizer.json")
    output: str = setting(MISSING, _DIR, _OUT, "run", "directory to write the data set to")
    format: str = setting(
        "auto",
        Choice("auto", *FORMATS),
        _IN,
        "documents",
        "what the input is: text (BERT's: a sentence a line, a blank line between documents), "
        "prose (running text), jsonl (a JSON object a line), mediawiki (exports in XML), warc (web "
        "archives, WET too), html (a page a file), gutenberg (a book a file, its licence dropped and its "
        "lines joined), parquet, avro, arrow (a document a row), or auto",
    )
    encoding: str = setting(
        "utf-8",
        Text(),
        _IN,
        "documents",
        "the encoding of files without a byte order mark, which has the last word: a name that Python "
        "knows, such as latin-1 or gb18030, or auto, a guess for each file; auto needs "
        'pip install "bert-data[encodings]"',
    )
    text_field: str = setting(
        "text",
        Text(),
        _IN,
        "documents",
        "the field or column with the text, in jsonl, parquet, avro and arrow; dots lead into nested ones",
    )
    id_field: str = setting(
        "id",
        Text(),
        _IN,
        "documents",
        "the field or column with the record's name, for messages",
    )
    language_field: str = setting(
        "lang", Text(), _IN, "documents", "the field or column with the record's language"
    )
    split: str | None = setting(
        None,
        Text(),
        _IN,
        "documents",
        "which split to read of a saved dataset, or of hf:NAME",
        words="the only one",
    )
    document_separator: str | None = setting(
        None,
        _LINE,
        _IN,
        "documents",
        "the line that stands between two documents of a file; needs --format prose, and one that "
        "starts with a dash is written --document_separator=---",
        words="a file is a document",
    )
    max_document_bytes: int = setting(
        64 << 20, _COUNT, _IN, "documents", "records longer than this are refused"
    )
    min_document_chars: int = setting(
        0,
        whole(0, 2**31 - 1),
        _IN,
        "documents",
        "documents of fewer characters are left out, and counted apart from the refused ones",
    )
    deduplicate: bool = setting(
        False,
        Switch(),
        _TEXT,
        "rows",
        "of documents with the same text, wherever they are, keep one",
    )
    language: str = setting(
        "en",
        _LANGUAGE,
        _TEXT,
        "rows",
        "language of the records that do not name their own; auto finds it out for each of them, and "
        'needs pip install "bert-data[languages]"',
    )
    sentence_splitter: str = setting(
        "auto",
        Choice("auto", *SPLITTERS),
        _TEXT,
        "rows",
        "what finds the sentences; best is the best that was measured for the language, srx is "
        'LanguageTool\'s rules (both need pip install "bert-data[sentences]"), crfcut is for Thai '
        '(pip install "bert-data[thai]"); none takes every line as one; auto is none for BERT\'s text '
        "format and sentencex otherwise; documents that bring their sentences keep them",
    )
    do_lower_case: bool | None = setting(
        None,
        Switch(),
        _TEXT,
        "rows",
        "lower-case the text and strip its accents",
        words="as the vocabulary needs; BERT's default is True",
    )
    max_seq_length: tuple[int, ...] = setting(
        (128,),
        _LENGTHS,
        _ROWS,
        "rows",
        "longest row in tokens, [CLS] and [SEP] included; several lengths are written in one run",
    )
    short_seq_prob: float = setting(
        None,
        _SHARE,
        _ROWS,
        "rows",
        "share of documents and passes (for mlm: of rows) with a shorter, random target length",
        words="0.1; 0 for --objective mlm, whose rows are full",
    )
    dupe_factor: int = setting(
        5,
        whole(1, 65_535),
        _ROWS,
        "rows",
        "passes over every document, each with other pairs and other masks",
        words="5; BERT's default is 10",
    )
    random_seed: int = setting(
        12345, whole(0, 2**63 - 1), _ROWS, "rows", "the seed of everything random"
    )
    exact_reference: bool = setting(
        False,
        Switch(),
        _ROWS,
        "rows",
        "write exactly what Google's create_pretraining_data.py writes for these files and this seed, "
        "row for row; files are read in the order of the patterns, sorted within a pattern; "
        "its own defaults are --dupe_factor 10 and --max_predictions_per_seq 20",
    )
    reference_groups: str = setting(
        "all",
        Choice("all", "file"),
        _ROWS,
        "rows",
        "with --exact_reference, what is one invocation of the script, and one file of each length: "
        "all input files together, or every file for itself, all with the same seed",
    )
    dupe_mode: str = setting(
        "resegment",
        Choice("resegment", "remask"),
        _ROWS,
        "rows",
        "what a pass draws again: resegment is everything, remask is the masks of the same rows",
    )
    objective: str = setting(
        "nsp",
        Choice("nsp", "sop", "mlm"),
        _ROWS,
        "rows",
        "what the rows are for: nsp is next sentence prediction, sop is ALBERT's sentence order "
        "(label 1: swapped), mlm is RoBERTa's full sentences without pairs",
    )
    not_next_share: float = setting(
        0.5,
        _SHARE,
        _ROWS,
        "rows",
        "share of the pairs with label 1: NotNext, or swapped for sop",
    )
    single_segment: str = setting(
        "split",
        Choice("split", "drop"),
        _ROWS,
        "rows",
        "for sop, a chunk of one sentence, which has no order: split is cut it in two, drop is "
        "make no row of it",
    )
    mlm_packing: str = setting(
        "full",
        Choice("full", "document"),
        _ROWS,
        "rows",
        "for mlm: full rows reach across documents, document rows never do",
    )
    sep_between_documents: bool = setting(
        False,
        Switch(),
        _ROWS,
        "rows",
        "for mlm: put [SEP] between the documents of a row, as RoBERTa's paper has it",
    )
    drop_last: bool = setting(
        False,
        Switch(),
        _ROWS,
        "rows",
        "for mlm: drop rows that are not full: the last of a shard and pass (of a document), and from "
        "the second pass on the first, which is cut short to move the cuts after it",
    )
    split_long_sentences: bool = setting(
        None,
        Switch(),
        _ROWS,
        "rows",
        "make several sentences of one that is longer than a row, at the ends of clauses, else between "
        "words, so that no part of it is cut off in every row",
        words="True; False for --objective mlm, whose rows need it not, and for --exact_reference",
    )
    validation_fraction: float = setting(
        0.0, _FRACTION, _ROWS, "rows", "share of the documents set apart as the validation split"
    )
    provenance: bool = setting(
        False,
        Switch(),
        _ROWS,
        "rows",
        "add columns that say which document and sentences a row came from",
    )
    masking: str = setting(
        "static",
        Choice("static", "none"),
        _MASKS,
        "rows",
        "when masks are drawn: static is now, for every row; none leaves it to the trainer, anew in "
        "every epoch",
    )
    masked_lm_prob: float = setting(
        0.15, _PROBABILITY, _MASKS, "rows", "share of the tokens to predict"
    )
    max_predictions_per_seq: tuple[int, ...] = setting(
        (),
        _PREDICTIONS,
        _MASKS,
        "rows",
        "most tokens to predict in a row, one number for each length",
        words="20 for 128 and 76 for 512, that is max_seq_length * masked_lm_prob without the "
        "fraction, but BERT's own 20 for 128; BERT's default is 20 for every length",
    )
    do_whole_word_mask: bool = setting(
        False, Switch(), _MASKS, "rows", "mask all pieces of a word or none"
    )
    word_segmenter: str = setting(
        "none",
        Choice("none", "jieba"),
        _MASKS,
        "rows",
        "what finds the words of Chinese for --do_whole_word_mask; none takes every character as "
        'one; jieba needs pip install "bert-data[chinese]"',
    )
    random_tokens: str = setting(
        "regular",
        Choice("regular", "all"),
        _MASKS,
        "rows",
        "what random replacements are drawn from; regular leaves out special and [unused] tokens",
        words="regular; BERT's way is all",
    )
    max_ngram_size: int = setting(
        1,
        whole(1, 16),
        _MASKS,
        "rows",
        "mask up to so many words that stand together; n words are drawn with weight 1/n",
    )
    mask_per: str = setting(
        "piece",
        Choice("piece", "word", "ngram"),
        _MASKS,
        "rows",
        "what is masked, replaced or kept as one: every piece for itself, a word, or an n-gram",
    )
    mask_token_share: float = setting(
        0.8, _SHARE, _MASKS, "rows", "share of the predictions that become [MASK]"
    )
    random_token_share: float = setting(
        0.1, _SHARE, _MASKS, "rows", "share of the predictions that become a random token"
    )
    kept_token_share: float = setting(
        0.1, _SHARE, _MASKS, "rows", "share of the predictions that stay as they are"
    )
    layout: str = setting(
        "separate",
        Choice("separate", "shared"),
        _OUT,
        "rows",
        "separate is a row for each pass; shared, with --dupe_mode remask, stores each row once "
        "and the masks of all passes beside it",
    )
    num_shards: int | None = setting(
        None,
        whole(1, MOST_SHARDS),
        _OUT,
        "rows",
        "files for each length",
        words="worked out from the input's size, printed and recorded",
    )
    overwrite: bool = setting(
        False, Switch(), _OUT, "run", "replace what is in the output directory"
    )
    resume: bool = setting(
        False, Switch(), _OUT, "run", "keep the finished files of an interrupted build"
    )
    num_workers: int | None = setting(
        None,
        _COUNT,
        _RUN,
        "run",
        "worker processes",
        words="one for each core, fewer for small input",
    )
    max_reject_fraction: float = setting(
        0.001, _SHARE, _RUN, "run", "fail when a larger share of the records is refused"
    )
    strict: bool = setting(
        False,
        Switch(),
        _RUN,
        "run",
        "fail at the first record that is refused or file that is damaged, and name it",
    )
    temp_dir: str | None = setting(
        None,
        _DIR,
        _RUN,
        "run",
        "directory for files needed during the run",
        words="inside the output directory",
    )
    runner: str = setting(
        "local",
        Text("local or the name of a runner", r"[A-Za-z][A-Za-z0-9_.]*"),
        _RUN,
        "run",
        "where it runs: local is this machine; prism, flink, spark, dataflow or any runner that Beam "
        "knows take Beam's own flags as well",
    )
    shuffle: str = setting(
        "auto",
        Choice("auto", "files", "runner"),
        _RUN,
        "run",
        "what brings the documents of a block together: files of this machine, or the runner; auto is "
        "files for --runner local only",
    )
    shared_files: bool = setting(
        False,
        Switch(),
        _RUN,
        "run",
        "the workers of another runner have the local paths under the same names",
    )
    wait: bool = setting(
        True, Switch(), _RUN, "run", "wait for a job of another runner, and show how far it is"
    )

    def __post_init__(self) -> None:
        if self.max_predictions_per_seq in ((), []):
            lengths = checked("max_seq_length", _LENGTHS, self.max_seq_length)
            prob = checked("masked_lm_prob", _PROBABILITY, self.masked_lm_prob)
            worked_out = tuple(default_predictions(n, masked_lm_prob=prob) for n in lengths)
            object.__setattr__(self, "max_predictions_per_seq", worked_out)
        if self.short_seq_prob is None:
            usual = 0.0 if self.objective == "mlm" else 0.1
            object.__setattr__(self, "short_seq_prob", usual)
        if self.split_long_sentences is None:
            splits = self.objective != "mlm" and not self.exact_reference
            object.__setattr__(self, "split_long_sentences", splits)
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                value = checked(each.name, each.metadata["setting"].kind, value)
                object.__setattr__(self, each.name, value)
        check_together(self)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> BuildConfig:
        """Make one of names and values; ``ConfigError`` names an unknown or a missing one."""
        names = {each.name: each for each in fields(cls)}
        for name in values:
            if name not in names:
                close = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise ConfigError(name, values[name], f"no such setting{hint}")
        for name, each in names.items():
            if each.default is MISSING and name not in values:
                raise ConfigError(name, None, f"must be given: {each.metadata['setting'].help}")
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> BuildConfig:
        """Read what :meth:`to_json` wrote; fields left out have their defaults."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError("config", text[:40], f"is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError("config", text[:40], "must be a JSON object of names and values")
        return cls.from_values(values)

    def to_json(self) -> str:
        """All fields as JSON: keys sorted, two spaces, newline at the end."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

    def row_settings(self) -> dict[str, Any]:
        """The fields that decide the rows, but for ``num_shards``, which a run works out.

        Not among them: where the text is and which records are taken, which are the set of
        documents. The lengths are in order: 512,128 makes the same rows as 128,512.
        """
        values = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.metadata["setting"].affects == "rows" and each.name != "num_shards"
        }
        pairs = sorted(zip(self.max_seq_length, self.max_predictions_per_seq, strict=True))
        values["max_seq_length"] = [length for length, _ in pairs]
        values["max_predictions_per_seq"] = [predictions for _, predictions in pairs]
        return values

    def fingerprint(self, *, tokenizer_digest: str, num_shards: int) -> str:
        """SHA-256 (hex) of everything but the documents that decides the rows.

        Args:
          tokenizer_digest: of the tokenizer as it is used.
          num_shards: as resolved; ``self.num_shards`` may be None.
        """
        values = self.row_settings()
        values |= {"tokenizer_digest": tokenizer_digest, "num_shards": num_shards}
        for name in LATER_SETTINGS:
            if values[name] == SETTINGS_BEFORE.get(name, self.__dataclass_fields__[name].default):
                del values[name]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def warnings(self) -> tuple[str, ...]:
        """What is allowed and probably not meant: one line each, with numbers and remedy."""
        return (*without_effect(self), *far_predictions(self))
