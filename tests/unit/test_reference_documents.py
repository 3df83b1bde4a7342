"""Reading and tokenizing as the reference's script does, against a plain copy written from its rules."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.errors import BuildError, ConfigError
from transforms.reference_documents import read_group
from transforms.reference_tokenizer import ReferenceEncoder, reference_vocabulary, vocab_words
from transforms.vocabulary import load_tokenizer


def plain_ids(line: str, vocabulary: dict[str, int], *, lower: bool) -> list[int]:
    """The whole tokenizer, a character at a time."""
    spaced = ""
    for c in line:
        category, code = unicodedata.category(c), ord(c)
        if c in " \t\n\r" or category == "Zs":
            spaced += " "
        elif code in (0, 0xFFFD) or category in ("Cc", "Cf"):
            continue
        elif (
            0x4E00 <= code <= 0x9FFF
            or 0x3400 <= code <= 0x4DBF
            or 0x20000 <= code <= 0x2A6DF
            or 0x2A700 <= code <= 0x2B73F
            or 0x2B740 <= code <= 0x2B81F
            or 0x2B820 <= code <= 0x2CEAF
            or 0xF900 <= code <= 0xFAFF
            or 0x2F800 <= code <= 0x2FA1F
        ):
            spaced += f" {c} "
        else:
            spaced += c
    ids = []
    for token in spaced.split():
        if lower:
            token = unicodedata.normalize("NFD", token.lower())
            token = "".join(c for c in token if unicodedata.category(c) != "Mn")
        split = ""
        for c in token:
            code = ord(c)
            ascii_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96
            mark = ascii_mark or 123 <= code <= 126 or unicodedata.category(c).startswith("P")
            split += f" {c} " if mark else c
        for word in split.split():
            ids += _pieces(word, vocabulary)
    return ids


def _pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    if len(word) > 200:
        return [vocabulary["[UNK]"]]
    found, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[("##" if start else "") + word[start:end]])
        start = end
    return found


#: Letters of which the vocabulary has pieces, so that a lost or changed one is seen in the ids.
_PIECES = [
    *"abeikosz", "é", "e", "ß", "σ", "ς", "α", "i", "\u0307", "\ue000", "\U000f0001", "\u0378",
    "ω", "\u1100", "\u1161", "中", "，", "!", "#", "[", "İ", "K",
]  # fmt: skip


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [prefix + piece for piece in dict.fromkeys(_PIECES) for prefix in ("", "##")]
    path.write_text("\n".join([*tokens, "ab", "##ko", "mask"]) + "\n", encoding="utf8")
    return str(path)


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def encoder(vocab_file, request):
    vocabulary = load_tokenizer(vocab_file, do_lower_case=request.param)
    return ReferenceEncoder(reference_vocabulary(vocabulary)), vocabulary, request.param


#: What the two tokenizers may see differently, and letters to see it by.
_ODD = (
    *"aAbkoz #[]!Σİ\u0307IßẞéKÅ中가、“＃\r\t\x85\x0b\x1c\0\ufffd\u00ad\u2028\u2029\u200b\ufeff",
    *"\ue000\U000f0001\u0378\uf900\u3000\xa0\U0001d165\u302e\u0323",
    *("[MASK]", "Σ\u0301", "ΑΣ", "E\u0301", "ｶﾞ", "a" * 101, "a" * 201),
)
odd = st.sampled_from(_ODD)
texts = st.lists(st.one_of(odd, st.characters(exclude_categories=["Cs"])), max_size=12).map("".join)


@given(line=texts.filter(lambda text: "\n" not in text))
@settings(max_examples=1500, deadline=None)
@example("ΟΔΥΣΣΕΥΣ ΑΣ\x01α")
@example("a\ue000b \ue000")
@example("İstanbul")
def test_the_ids_are_the_scripts(encoder, line):
    encode, vocabulary, lower = encoder
    ids, offsets = encode.encode(line)
    known = {token: i for i, token in enumerate(vocabulary.tokens)}
    assert ids.tolist() == plain_ids(line, known, lower=lower)
    assert offsets.tolist() == [0, len(ids)]


def test_every_character_of_unicode(encoder):
    encode, vocabulary, lower = encoder
    known = {token: i for i, token in enumerate(vocabulary.tokens)}
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    # Of assigned ones all below U+3000, beyond it a third (a fifth where nothing is lower-cased), of those
    # for private use and the unassigned a few: they are alike.
    step = 3 if lower else 5
    lines = [
        f"a{c}b"
        for i, c in enumerate(characters)
        if c != "\n"
        and (i < 0x3000 or i % (997 if unicodedata.category(c) in ("Co", "Cn") else step) == 0)
    ]
    ids, offsets = encode.encode("\n".join(lines))
    for i, line in enumerate(lines):
        mine = ids[offsets[i] : offsets[i + 1]].tolist()
        assert mine == plain_ids(line, known, lower=lower), hex(ord(line[1]))


def _read(tmp_path, encode, *contents: bytes, chunk_bytes: int = 1 << 20, compression="none"):
    files = []
    for i, content in enumerate(contents):
        path = tmp_path / f"{i}.txt"
        path.write_bytes(gzip.compress(content) if compression == "gz" else content)
        files.append((str(path), compression))
    return read_group(files, encode, chunk_bytes=chunk_bytes)


def _plain_documents(contents, known, *, lower):
    """``create_training_instances``, up to the shuffle."""
    documents: list[list[list[int]]] = [[]]
    for content in contents:
        for data in io.BytesIO(content):
            line = data.decode().strip()
            if not line:
                documents.append([])
            if ids := plain_ids(line, known, lower=lower):
                documents[-1].append(ids)
    return [document for document in documents if document]


def _lists(read):
    sentences = np.split(read.ids, read.sentence_offsets[1:-1])
    bounds = read.document_offsets
    return [
        [sentences[s].tolist() for s in range(first, end)]
        for first, end in itertools.pairwise(bounds)
    ]


lines = st.sampled_from(
    [
        "ab kob",
        "a",
        "\u200b",
        "",
        "",
        " ",
        "\x1c",
        "zoe!\r",
        "\r",
        "\x85",
        "Σ",
        "a\ue000",
        "é\u2028b",
    ]
)
contents = st.lists(
    st.tuples(st.lists(lines, max_size=12), st.booleans()).map(
        lambda drawn: ("\n".join(drawn[0]) + "\n" * drawn[1]).encode()
    ),
    min_size=1,
    max_size=3,
)


@given(given=contents, chunk_bytes=st.sampled_from([1, 7, 1 << 20]))
@settings(max_examples=400, deadline=None)
def test_the_documents_are_the_scripts(encoder, tmp_path_factory, given, chunk_bytes):
    encode, vocabulary, lower = encoder
    known = {token: i for i, token in enumerate(vocabulary.tokens)}
    folder = tmp_path_factory.mktemp("files")
    read = _read(folder, encode, *given, chunk_bytes=chunk_bytes)
    assert _lists(read) == _plain_documents(given, known, lower=lower)
    assert len(read.keys) == len(read.document_offsets) - 1
    assert read.text_bytes == sum(map(len, given))


def test_a_document_goes_on_over_the_end_of_a_file(tmp_path, encoder):
    read = _read(tmp_path, encoder[0], b"ab\n\nko\n", b"za\n\n", b"bo")
    assert [len(document) for document in _lists(read)] == [1, 2, 1]
    assert read.file_ends_inside == 1
    digest = hashlib.blake2b(b"ko\nza", digest_size=16).digest()
    assert read.keys[1] == digest  # the key that the same text has elsewhere in this project


def test_a_compressed_file_is_the_same(tmp_path, encoder):
    content = b"ab\nko\n\nza\n" * 1000
    plain = _read(tmp_path, encoder[0], content)
    packed = _read(tmp_path, encoder[0], content, compression="gz", chunk_bytes=999)
    assert (plain.ids == packed.ids).all()
    assert (plain.document_offsets == packed.document_offsets).all()


def test_bytes_that_are_not_utf8_are_one_clean_error(tmp_path, encoder):
    content = b"ab\n" * 100 + b"k\xffo\n" + b"ab\n" * 100
    with pytest.raises(BuildError, match=r"0\.txt: not UTF-8: 0xff at byte 301 .*convert the file"):
        _read(tmp_path, encoder[0], content, chunk_bytes=10)


def test_a_damaged_file_is_one_clean_error(tmp_path, encoder):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"ab ko\n" * 9999)[:-20])
    with pytest.raises(BuildError, match=r"cut\.gz: .*mend it"):
        read_group([(str(path), "gz")], encoder[0])


def test_vocab_words_are_the_keys_of_the_scripts_dict(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\nab\n[CLS]\n[SEP]\n[MASK]\nko\nab\n[unused1]\n")
    words = vocab_words(load_tokenizer(str(path), do_lower_case=True))
    assert words.tolist() == [0, 1, 7, 3, 4, 5, 6, 8]


def test_words_of_up_to_200_characters_even_where_the_tokenizer_has_another_limit(
    tmp_path, vocab_file
):
    plain = load_tokenizer(vocab_file, do_lower_case=True)
    path = tmp_path / "tokenizer.json"
    path.write_text(
        plain.tokenizer_json.replace(
            '"max_input_chars_per_word":200', '"max_input_chars_per_word":100'
        )
    )
    other = load_tokenizer(str(path), do_lower_case=None)
    ids, _ = ReferenceEncoder(reference_vocabulary(other)).encode("a" * 150)
    assert len(ids) == 150
    assert reference_vocabulary(plain) == plain


def test_a_tokenizer_of_another_kind_is_refused(vocab_file):
    plain = load_tokenizer(vocab_file, do_lower_case=True)
    other = plain.tokenizer_json.replace('"BertNormalizer"', '"NFC"')
    object.__setattr__(plain, "tokenizer_json", other)
    with pytest.raises(ConfigError, match="WordPiece"):
        reference_vocabulary(plain)
    named = load_tokenizer(vocab_file, do_lower_case=True)
    tokens = tuple("<mask>" if token == "[MASK]" else token for token in named.tokens)
    with pytest.raises(ConfigError, match="WordPiece"):
        reference_vocabulary(dataclasses.replace(named, tokens=tokens))
