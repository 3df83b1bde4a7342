"""Reading vocabulary files: ``vocab.txt`` and ``tokenizer.json`` to tokens and a tokenizer.

Only what knows the two file formats lives here; :mod:`transforms.vocabulary` says what is asked of
their content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from schemas.errors import ConfigError
from schemas.stores import open_file, require_store

__all__ = [
    "SPECIAL_ROLES",
    "SPECIAL_TOKENS",
    "read_text",
    "special_names",
    "tokenizer_from_json",
    "tokenizer_from_tokens",
    "tokens_by_id",
    "tokens_by_line",
]

#: The tokens that pre-training needs, in exactly this case, as BERT calls them.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

#: What each of them may be called in a ``tokenizer.json``: BERT's name, which wins, and that of
#: RoBERTa, XLM-R, ALBERT and others.
SPECIAL_ROLES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}

#: A longer word is ``[UNK]``: the value of Google's ``WordpieceTokenizer``.
_MAX_INPUT_CHARS_PER_WORD = 200


def read_text(vocab_file: str) -> str:
    """The text of a local or remote file, without a byte order mark.

    Raises:
      ConfigError: it cannot be read or is not UTF-8.
    """
    require_store("vocab_file", vocab_file)
    try:
        with open_file(vocab_file) as stream:
            content = stream.read()
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            "vocab_file", vocab_file, f"not UTF-8 text (byte {error.start})"
        ) from error
    except OSError as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise ConfigError("vocab_file", vocab_file, f"cannot be read: {reason}") from error


def tokenizer_from_json(
    text: str, refuse: Callable[[str], ConfigError], warnings: list[str]
) -> Tokenizer:
    """The tokenizer as it is, except that it must not cut, fill or vary what it is given.

    Args:
      text: content of a ``tokenizer.json``.
      refuse: makes the error of what is wrong.
      warnings: gets a line for each thing that was switched off.

    Raises:
      ConfigError: as ``refuse`` makes it, when this is no tokenizer.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise refuse(f"broken JSON at line {error.lineno}: {error.msg}") from error
    if not isinstance(content, dict) or "model" not in content:
        raise refuse('not a tokenizer.json: it has no "model"')
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises this very class
        line = str(error).partition("\n")[0]
        raise refuse(f"not a tokenizer that the tokenizers library can read: {line}") from error
    if tokenizer.truncation is not None:
        length = tokenizer.truncation["max_length"]
        warnings.append(f"the tokenizer truncates at {length} tokens: switched off for this run")
        tokenizer.no_truncation()
    if tokenizer.padding is not None:
        warnings.append("the tokenizer pads what it encodes: switched off for this run")
        tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None):
        warnings.append("the tokenizer drops merges at random: switched off for this run")
        tokenizer.model.dropout = None
    return tokenizer


def tokens_by_id(tokenizer: Tokenizer) -> list[str]:
    """The tokens of a tokenizer; an id that no token has is ``""``."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens = [""] * (max(ids.values(), default=-1) + 1)
    for token, i in ids.items():
        tokens[i] = token
    return tokens


def tokens_by_line(text: str, warnings: list[str]) -> list[str]:
    """As Google's ``load_vocab`` reads it, but for blank lines at the end.

    Args:
      text: content of a ``vocab.txt``.
      warnings: gets a line for each repeated token, three at most.
    """
    tokens = [line.strip() for line in text.split("\n")]
    while tokens and not tokens[-1]:
        tokens.pop()
    lines: dict[str, list[int]] = {}
    for i, token in enumerate(tokens):
        lines.setdefault(token, []).append(i + 1)
    repeated = {token: where for token, where in lines.items() if len(where) > 1}
    for token, where in list(repeated.items())[:3]:
        others = f" (and {len(repeated) - 1:,} other tokens likewise)" if len(repeated) > 3 else ""
        warnings.append(
            f"{token!r} is in the vocabulary {len(where)} times, on lines "
            f"{', '.join(map(str, where))}: its id is the last, {where[-1] - 1}{others}"
        )
    return tokens


def tokenizer_from_tokens(tokens: Sequence[str], *, lowercase: bool) -> Tokenizer:
    """BERT's tokenizer over these tokens, the same parts as the released ``tokenizer.json``."""
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=_MAX_INPUT_CHARS_PER_WORD)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def special_names(
    tokens: Sequence[str], refuse: Callable[[str], ConfigError], *, allowed: int | None = None
) -> dict[str, str]:
    """What the vocabulary calls the special token of each role.

    Args:
      tokens: of the vocabulary.
      refuse: makes the error of what is wrong.
      allowed: how many of the names of ``SPECIAL_ROLES`` will do; all by default.

    Raises:
      ConfigError: as ``refuse`` makes it, when a role has none.
    """
    present = set(tokens)
    accepted = {role: names[:allowed] for role, names in SPECIAL_ROLES.items()}
    found = {
        role: name
        for role, names in accepted.items()
        for name in reversed(names)
        if name in present
    }
    missing = [names for role, names in accepted.items() if role not in found]
    if not missing:
        return found
    remedy = f"the vocabulary has no {_listed(missing)}"
    other_case = {token.upper(): token for token in tokens}
    alike = [other_case[name] for name, *_ in missing if name in other_case]
    if alike:
        remedy += (
            f"; it has {' '.join(alike)}, but the case matters: write them in capitals, or make "
            "the vocabulary again without lower-casing its special tokens"
        )
    raise refuse(remedy)


def _listed(missing: Sequence[Sequence[str]]) -> str:
    """``[SEP] [MASK]``, or with other names ``[SEP] or </s>, [MASK] or <mask>``."""
    separator = ", " if len(missing[0]) > 1 else " "
    return separator.join(" or ".join(names) for names in missing)
