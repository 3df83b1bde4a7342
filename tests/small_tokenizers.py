"""Small tokenizers of every kind, made on the spot from the sample text."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from transforms.vocabulary import Vocabulary, load_tokenizer

DATA = Path(__file__).parent / "data"

#: The names and the order of the released tokenizers.
ALBERT = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@functools.cache
def texts(language: str | None = None) -> tuple[str, ...]:
    """Lines of the sample in all languages, or in one and its variants."""
    records = [json.loads(line) for line in (DATA / "multilingual.jsonl").open(encoding="utf8")]
    return tuple(
        line
        for record in records
        if language is None or record["lang"].partition("-")[0] == language
        for line in record["text"].split("\n")
        if line.strip()
    )


def unigram() -> Tokenizer:
    """As ALBERT's: SentencePiece's unigrams, lower-cased, the space as ``▁``."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=2500, special_tokens=ALBERT, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def metaspace_bpe() -> Tokenizer:
    """As CamemBERT's or Llama's: merges over text with ``▁`` for the space."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=2500, special_tokens=ROBERTA, show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def byte_level() -> Tokenizer:
    """As RoBERTa's: merges over bytes, ``Ġ`` for the space."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=ROBERTA,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def chinese() -> Tokenizer:
    """As bert-base-chinese: characters, and pieces of Latin words; some characters are unknown."""
    characters = sorted({c for line in texts("zh") for c in line if not c.isspace()})
    pieces = [f"{mark}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz" for mark in ("", "##")]
    tokens = dict.fromkeys([*BERT, *characters[::2], *pieces, "phone", "##one", "3", "##月"])
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(BERT)
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "unigram": unigram,
    "metaspace": metaspace_bpe,
    "bytelevel": byte_level,
    "chinese": chinese,
}


@functools.cache
def tokenizer_json(kind: str) -> str:
    """The serialized tokenizer of a kind."""
    return KINDS[kind]().to_str()


def save_tokenizer(kind: str, folder: Path) -> Path:
    """A ``tokenizer.json`` of a kind."""
    path = folder / "tokenizer.json"
    path.write_text(tokenizer_json(kind), encoding="utf8")
    return path


def small_vocabulary(kind: str, folder: Path) -> Vocabulary:
    """The vocabulary of a kind, read from a file in the folder."""
    return load_tokenizer(str(save_tokenizer(kind, folder)), do_lower_case=None)
