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

from pipeline.settings import Choice, Number, Several, Switch, Text, checked, setting, whole
from schemas.errors import ConfigError

__all__ = ["BuildConfig", "default_predictions"]

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
_LANGUAGE = Text("a language code such as en or pt-BR", r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*")
_FILE, _DIR = Text("a path, not empty", metavar="FILE"), Text("a path, not empty", metavar="DIR")
_LINE = Text("a line, not empty, without white space around it", r"\S([^\r\n]*\S)?")
_PATHS = Several(_FILE, "paths or patterns, at least one, none empty")

_IN, _TEXT, _ROWS, _MASKS, _OUT, _RUN = "input", "text", "examples", "masks", "output", "running"


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """What to build from what, and how. Values are checked and canonical once it exists.

    ``max_predictions_per_seq`` left empty is worked out, see :func:`default_predictions`.

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
        Choice("auto", "text", "prose", "jsonl"),
        _IN,
        "documents",
        "what the input is: text (BERT's: a sentence a line, a blank line between documents), "
        "prose (running text), jsonl (a JSON object a line), or auto",
    )
    text_field: str = setting("text", Text(), _IN, "documents", "the field with the text, in jsonl")
    id_field: str = setting(
        "id",
        Text(),
        _IN,
        "documents",
        "the field with the record's name, for messages, in jsonl",
    )
    language_field: str = setting(
        "lang", Text(), _IN, "documents", "the field with the record's language, in jsonl"
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
    language: str = setting(
        "en", _LANGUAGE, _TEXT, "rows", "language of the records that do not name their own"
    )
    sentence_splitter: str = setting(
        "auto",
        Choice("auto", "sentencex", "none"),
        _TEXT,
        "rows",
        "what finds the sentences; none takes every line as one; auto is none for "
        "BERT's text format and sentencex otherwise",
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
        0.1,
        _SHARE,
        _ROWS,
        "rows",
        "share of documents and passes with a shorter, random target length",
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
    objective: str = setting(
        "nsp",
        Choice("nsp"),
        _ROWS,
        "rows",
        "what the pairs are for: nsp is next sentence prediction",
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
        Choice("static"),
        _MASKS,
        "rows",
        "when masks are drawn: static is now, for every row",
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
    random_tokens: str = setting(
        "regular",
        Choice("regular", "all"),
        _MASKS,
        "rows",
        "what random replacements are drawn from; regular leaves out special and [unused] tokens",
        words="regular; BERT's way is all",
    )
    num_shards: int | None = setting(
        None,
        whole(1, 99999),
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
        Text("local or the name of one of Beam's runners", r"[A-Za-z][A-Za-z0-9_.]*"),
        _RUN,
        "run",
        "where it runs: local is this machine; one of Beam's runners takes Beam's own flags",
    )

    def __post_init__(self) -> None:
        if self.max_predictions_per_seq in ((), []):
            lengths = checked("max_seq_length", _LENGTHS, self.max_seq_length)
            prob = checked("masked_lm_prob", _PROBABILITY, self.masked_lm_prob)
            worked_out = tuple(default_predictions(n, masked_lm_prob=prob) for n in lengths)
            object.__setattr__(self, "max_predictions_per_seq", worked_out)
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                value = checked(each.name, each.metadata["setting"].kind, value)
                object.__setattr__(self, each.name, value)
        self._check_together()

    def _check_together(self) -> None:
        lengths, predictions = self.max_seq_length, self.max_predictions_per_seq
        if len(lengths) != len(predictions):
            write = ",".join(
                str(default_predictions(n, masked_lm_prob=self.masked_lm_prob)) for n in lengths
            )
            raise ConfigError(
                "max_predictions_per_seq",
                predictions,
                f"must have one number for each of the {len(lengths)} lengths of --max_seq_length; "
                f"write --max_predictions_per_seq {write} or leave it out",
            )
        for length, prediction in zip(lengths, predictions, strict=True):
            if prediction > length:
                raise ConfigError(
                    "max_predictions_per_seq", prediction, f"must be at most the length, {length}"
                )
        if self.resume and self.overwrite:
            raise ConfigError("resume", True, "cannot go with --overwrite; give one of them")
        if self.document_separator is not None and self.format != "prose":
            raise ConfigError(
                "document_separator",
                self.document_separator,
                f"is for running text only; give --format prose too (it is {self.format})",
            )

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
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def warnings(self) -> tuple[str, ...]:
        """What is allowed and probably not meant: one line each, with numbers and remedy."""
        found = []
        for length, cap in zip(self.max_seq_length, self.max_predictions_per_seq, strict=True):
            asked = length * self.masked_lm_prob
            usual = default_predictions(length, masked_lm_prob=self.masked_lm_prob)
            if cap == usual or asked / 1.5 <= cap <= asked * 1.5:
                continue
            effect = "rows get fewer masks" if cap < asked else "that many are never reached"
            found.append(
                f"--max_predictions_per_seq={cap} is far from the {asked:.1f} tokens that "
                f"--masked_lm_prob={self.masked_lm_prob} asks for at "
                f"--max_seq_length={length}: {effect}; the usual number is {usual}"
            )
        return tuple(found)


def default_predictions(max_seq_length: int, *, masked_lm_prob: float) -> int:
    """The cap on predictions when none is given: the whole part of length * probability.

    At least 1, and 20 for 128 at 0.15: with 76 for 512 these are the pairs of the reference's
    README and of the released models, and no rounding gives both.
    """
    if (max_seq_length, masked_lm_prob) == (128, 0.15):
        return 20
    return max(1, int(max_seq_length * masked_lm_prob))
