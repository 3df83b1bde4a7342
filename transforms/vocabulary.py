"""The vocabulary: a ``vocab.txt`` or ``tokenizer.json`` becomes one frozen, checked description.

Only what a run asks of its vocabulary lives here: :mod:`transforms.vocabulary_files` reads files,
:mod:`transforms.tokenization` tokenizes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
import re
import unicodedata
import zlib
from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from schemas.errors import ConfigError
from transforms.vocabulary_files import (
    SPECIAL_TOKENS,
    read_text,
    special_names,
    tokenizer_from_json,
    tokenizer_from_tokens,
    tokens_by_id,
    tokens_by_line,
)
from transforms.word_marks import WordMarks, find_word_marks

__all__ = ["SPECIAL_TOKENS", "Vocabulary", "load_tokenizer", "rebuild_tokenizer"]

_UNUSED = re.compile(r"\[unused\d+\]")

#: Share of the vocabulary that must contradict ``do_lower_case`` before it is worth a warning.
_CONTRADICTION = 0.001


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A tokenizer and what the pipeline needs to know of it. Picklable; needs no file.

    Attributes:
      tokenizer_json: the exact serialized tokenizer; workers rebuild theirs from it.
      tokens: by id; an id that no token has is ``""``.
      pad_id, unk_id, cls_id, sep_id, mask_id: of ``[PAD] [UNK] [CLS] [SEP] [MASK]``, or what a
        ``tokenizer.json`` has in their places, see ``SPECIAL_ROLES``.
      special_ids: these five and every other token that the tokenizer calls special, sorted.
      digest: SHA-256 of ``tokenizer_json``, hexadecimal.
      do_lower_case: whether the tokenizer lower-cases, as resolved.
      word_marks: how its entries mark words.
      warnings: one line each, for people.
    """

    tokenizer_json: str
    tokens: tuple[str, ...]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: tuple[int, ...]
    digest: str
    do_lower_case: bool
    word_marks: WordMarks
    warnings: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: the rows that an embedding needs."""
        return len(self.tokens)

    @functools.cached_property
    def is_subword(self) -> np.ndarray:
        """Bool [vocab_size]: the token continues the word before it, inside a sentence.

        Where the first piece of a word is marked, the first token of a sentence begins one all the
        same (``word_marks.marks_first``).
        """
        return self.word_marks.table(self.tokens, special_ids=self.special_ids)

    @functools.cached_property
    def regular_ids(self) -> np.ndarray:
        """Int64, sorted: ids of tokens that text can have; not special, not ``[unusedN]``."""
        last = {token: i for i, token in enumerate(self.tokens)}
        special = set(self.special_ids)
        return np.array(
            [
                i
                for i, token in enumerate(self.tokens)
                if token and last[token] == i and i not in special and not _UNUSED.fullmatch(token)
            ],
            dtype=np.int64,
        )

    @functools.cached_property
    def _packed(self) -> bytes:
        return zlib.compress(pickle.dumps([getattr(self, name) for name in _FIELDS]))

    def __getstate__(self) -> bytes:
        """The fields, compressed: it travels in the job's graph, whose size runners limit.

        Compressed once: Beam pickles each step several times over while the user waits.
        """
        return self._packed

    def __setstate__(self, state: bytes) -> None:
        self.__dict__.update(zip(_FIELDS, pickle.loads(zlib.decompress(state)), strict=True))

    def tokenizer(self) -> Tokenizer:
        """A new tokenizer for corpus text; see :func:`rebuild_tokenizer`."""
        return rebuild_tokenizer(self.tokenizer_json)


_FIELDS = tuple(field.name for field in dataclasses.fields(Vocabulary))


def rebuild_tokenizer(tokenizer_json: str) -> Tokenizer:
    """The tokenizer for corpus text: text that spells ``[MASK]`` or ``[SEP]`` is text.

    ``encode_special_tokens`` is not part of the serialized form, so it is set after each reading.
    """
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.encode_special_tokens = True
    return tokenizer


def load_tokenizer(vocab_file: str, *, do_lower_case: bool | None) -> Vocabulary:
    """Read a vocabulary and check that a run can use it.

    Args:
      vocab_file: a ``vocab.txt`` (one token a line, the id is the line's number) or a
        ``tokenizer.json`` of any kind; a local path or any that Beam's file systems know.
      do_lower_case: lower-case and strip accents, as BERT's uncased models do. ``None`` is the
        file's own choice: ``True`` for a ``vocab.txt``, BERT's default, which says nothing itself.

    Raises:
      ConfigError: the file cannot be read or lacks a special token, or a ``tokenizer.json``
        contradicts ``do_lower_case``.
    """
    refuse = functools.partial(ConfigError, "vocab_file", vocab_file)
    text = read_text(vocab_file)
    if not text.strip():
        raise refuse("the file is empty")
    warnings: list[str] = []
    if vocab_file.endswith(".json") or (text.lstrip().startswith("{") and '"model"' in text):
        tokenizer = tokenizer_from_json(text, refuse, warnings)
        tokens = tokens_by_id(tokenizer)
        names = special_names(tokens, refuse)
        own = _lower_cases(tokenizer)
        if do_lower_case is not None and do_lower_case != own:
            raise ConfigError(
                "do_lower_case",
                do_lower_case,
                f"{vocab_file} {'lower-cases' if own else 'does not lower-case'}; leave the flag "
                "out to use the tokenizer as it is, or give a vocab.txt",
            )
    else:
        tokens = tokens_by_line(text, warnings)
        # By itself a list of tokens is BERT's, whose tokenizer has the names built in.
        names = special_names(tokens, refuse, allowed=1)
        tokenizer = tokenizer_from_tokens(tokens, lowercase=do_lower_case is not False)
    return _describe(tokenizer, tokens, names, warnings)


def _describe(
    tokenizer: Tokenizer, tokens: Sequence[str], names: dict[str, str], warnings: list[str]
) -> Vocabulary:
    ids = {token: i for i, token in enumerate(tokens)}
    added = tokenizer.get_added_tokens_decoder()
    special = {ids[t] for t in names.values()} | {i for i, t in added.items() if t.special}
    lowers = _lower_cases(tokenizer)
    marks = find_word_marks(tokenizer)
    ordinary = {
        marks.text(token) if marks.marks_first else token: i
        for i, token in enumerate(tokens)
        if token and i not in special and not _UNUSED.fullmatch(token)
    }
    serialized = tokenizer.to_str()
    return Vocabulary(
        tokenizer_json=serialized,
        tokens=tuple(tokens),
        **{f"{role}_id": ids[token] for role, token in names.items()},
        special_ids=tuple(sorted(special)),
        digest=hashlib.sha256(serialized.encode()).hexdigest(),
        do_lower_case=lowers,
        warnings=(
            *warnings,
            *_contradictions(
                ordinary,
                len(tokens),
                do_lower_case=lowers,
                strips_accents=lowers and _normalized(tokenizer, "É") == "e",
                unknown=marks.kind == "wordpiece",
            ),
        ),
        word_marks=marks,
    )


def _lower_cases(tokenizer: Tokenizer) -> bool:
    return _normalized(tokenizer, "A") == "a"


def _normalized(tokenizer: Tokenizer, letter: str) -> str:
    """A letter as the tokenizer's normalizer leaves it, without a mark that is put before it."""
    normalizer = tokenizer.normalizer
    return letter if normalizer is None else normalizer.normalize_str(letter)[-1:]


def _contradictions(
    ordinary: dict[str, int],
    vocab_size: int,
    *,
    do_lower_case: bool,
    strips_accents: bool,
    unknown: bool,
) -> tuple[str, ...]:
    """What in the vocabulary says that ``do_lower_case`` is wrong for it.

    Args:
      ordinary: the ids by what text the tokens stand for.
      vocab_size: of all.
      do_lower_case, strips_accents: what the tokenizer does.
      unknown: whether a word with a letter that is in no entry becomes unknown.
    """
    capital = [token for token in ordinary if token != token.lower()]
    if not do_lower_case:
        if len(capital) <= _CONTRADICTION * vocab_size and any(t.upper() != t for t in ordinary):
            few = f"only {len(capital):,}" if capital else "none"
            return (
                f"do_lower_case is off but {few} of the vocabulary's {vocab_size:,} entries "
                "have upper-case letters: words with capitals "
                + ("become [UNK]" if unknown else "fall into small pieces"),
            )
        return ()
    accented = [
        token
        for token in ordinary
        if strips_accents
        and not token.isascii()
        and any(unicodedata.category(c) == "Mn" for c in unicodedata.normalize("NFD", token))
    ]
    return tuple(
        f"do_lower_case is on (--no-do_lower_case switches it off) but {len(lost):,} of the "
        f"vocabulary's {vocab_size:,} entries have {what}, such as {_example(lost)!r} "
        f"(id {ordinary[_example(lost)]}): they can never be produced"
        for lost, what in ((capital, "upper-case letters"), (accented, "accents"))
        if len(lost) > _CONTRADICTION * vocab_size
    )


def _example(tokens: Sequence[str]) -> str:
    """The first whole word of some length, which says more than a single letter."""
    return next((t for t in tokens if len(t) > 2 and t.strip().isalpha()), tokens[0])
