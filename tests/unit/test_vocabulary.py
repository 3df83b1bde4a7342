"""What a vocabulary file becomes, and which ones are refused."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from schemas.errors import ConfigError
from transforms.vocabulary import SPECIAL_TOKENS, Vocabulary, load_tokenizer

TOKENS = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "cat", "!"]


def write(path: Path, tokens: list[str], *, end: str = "\n") -> str:
    path.write_bytes("".join(token + end for token in tokens).encode())
    return str(path)


def ids(vocabulary: Vocabulary, text: str) -> list[int]:
    return vocabulary.tokenizer().encode(text, add_special_tokens=False).ids


def refused(path: str, **flags: bool | None) -> str:
    with pytest.raises(ConfigError) as error:
        load_tokenizer(path, **{"do_lower_case": None, **flags})
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_description_of_a_vocab_txt(tmp_path):
    vocabulary = load_tokenizer(write(tmp_path / "vocab.txt", TOKENS), do_lower_case=None)
    assert vocabulary.tokens == tuple(TOKENS)
    assert vocabulary.vocab_size == len(TOKENS)
    special = [getattr(vocabulary, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")]
    assert special == [0, 2, 3, 4, 5]
    assert vocabulary.special_ids == (0, 2, 3, 4, 5)
    assert np.flatnonzero(vocabulary.is_subword).tolist() == [7]
    assert vocabulary.regular_ids.tolist() == [6, 7, 8, 9]
    assert vocabulary.do_lower_case
    assert vocabulary.warnings == ()
    assert ids(vocabulary, "The Cats!") == [6, 8, 7, 9]


@pytest.mark.parametrize("end", ["\n", "\r\n", "  \n"])
def test_line_ends_and_byte_order_mark_do_not_matter(tmp_path, end):
    plain = load_tokenizer(write(tmp_path / "a.txt", TOKENS), do_lower_case=None)
    path = Path(write(tmp_path / "b.txt", TOKENS, end=end))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n \n\r\n")
    assert load_tokenizer(str(path), do_lower_case=None) == plain


def test_a_repeated_token_has_its_last_id(tmp_path):
    tokens = [*TOKENS, "the", "dog"]
    vocabulary = load_tokenizer(write(tmp_path / "vocab.txt", tokens), do_lower_case=None)
    assert vocabulary.vocab_size == 12
    assert ids(vocabulary, "the dog") == [10, 11]
    assert vocabulary.regular_ids.tolist() == [7, 8, 9, 10, 11]
    (warning,) = vocabulary.warnings
    assert "'the'" in warning
    assert "lines 7, 11" in warning


def test_a_word_is_unknown_above_200_characters(tmp_path):
    path = write(tmp_path / "vocab.txt", [*TOKENS, "x", "##x"])
    vocabulary = load_tokenizer(path, do_lower_case=None)
    assert ids(vocabulary, "x" * 200) == [10] + 199 * [11]
    assert ids(vocabulary, "x" * 201) == [vocabulary.unk_id]


def test_pickled_it_needs_no_file(tmp_path):
    vocabulary = load_tokenizer(write(tmp_path / "vocab.txt", TOKENS), do_lower_case=None)
    expected = ids(vocabulary, "The Cats!"), vocabulary.regular_ids.tolist()
    pickled = pickle.dumps(vocabulary)
    shutil.rmtree(tmp_path)
    copy = pickle.loads(pickled)
    assert copy == vocabulary
    assert (ids(copy, "The Cats!"), copy.regular_ids.tolist()) == expected


def test_the_digest_is_of_what_tokenizes(tmp_path):
    path = write(tmp_path / "vocab.txt", TOKENS)
    lower = load_tokenizer(path, do_lower_case=None)
    assert lower.digest == load_tokenizer(path, do_lower_case=True).digest
    assert lower.digest != load_tokenizer(path, do_lower_case=False).digest
    saved = tmp_path / "tokenizer.json"
    saved.write_text(json.dumps(json.loads(lower.tokenizer_json), indent=3))
    assert load_tokenizer(str(saved), do_lower_case=None).digest == lower.digest


@pytest.mark.parametrize("kind", ["vocab.txt", "tokenizer.json"])
def test_text_that_spells_a_special_token_is_text(tmp_path, kind):
    pieces = ["[", "]", "mask", "sep", "cls", "pad", "un", "##k", "[MASK"]
    path = write(tmp_path / "vocab.txt", [*TOKENS, *pieces])
    if kind == "tokenizer.json":
        vocabulary = load_tokenizer(path, do_lower_case=None)
        Path(path).write_text(vocabulary.tokenizer_json)
        # As it comes from the file, the library does give special ids.
        assert Tokenizer.from_file(path).encode("[MASK]", add_special_tokens=False).ids == [5]
    vocabulary = pickle.loads(pickle.dumps(load_tokenizer(path, do_lower_case=None)))
    for token in SPECIAL_TOKENS:
        for text in (token, f"a{token}cat", f"{token}{token}", f"[{token}]", token.lower()):
            found = vocabulary.tokenizer().encode_batch_fast([text], add_special_tokens=False)
            assert not set(found[0].ids) & (set(vocabulary.special_ids) - {vocabulary.unk_id})
    assert ids(vocabulary, "[MASK]") == [10, 12, 11]


@pytest.mark.parametrize("name", ["uncased", "cased", "chinese", "multilingual-cased"])
def test_released_vocabularies(shared, name):
    path = shared / "data" / "vocab" / f"bert-base-{name}-vocab.txt"
    vocabulary = load_tokenizer(str(path), do_lower_case=name == "uncased")
    assert [vocabulary.tokens.index(token) for token in SPECIAL_TOKENS] == [0, 100, 101, 102, 103]
    assert [vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id] == [0, 100, 101]
    sizes = {"uncased": 30522, "cased": 28996, "chinese": 21128, "multilingual-cased": 119547}
    assert vocabulary.vocab_size == sizes[name]
    json_path = path.with_name(f"bert-base-{name}-tokenizer.json")
    if json_path.exists():
        released = load_tokenizer(str(json_path), do_lower_case=None)
        different = {
            i
            for i, pair in enumerate(zip(released.tokens, vocabulary.tokens, strict=True))
            if pair[0] != pair[1]
        }
        # Google's script strips U+2028, of which the Chinese vocabulary has two entries.
        assert different == ({343, 13502} if name == "chinese" else set())
        assert released.do_lower_case == (name == "uncased")


def test_a_tokenizer_that_truncates_and_pads_no_longer_does(shared):
    path = shared / "data" / "bad" / "tokenizer-truncates-at-128.json"
    vocabulary = load_tokenizer(str(path), do_lower_case=None)
    assert len(ids(vocabulary, "word " * 1000)) == 1000
    assert len(ids(vocabulary, "word")) == 1
    assert [w for w in vocabulary.warnings if "truncates at 128" in w]
    assert [w for w in vocabulary.warnings if "pads" in w]
    sound = path.parents[1] / "vocab" / "bert-base-uncased-tokenizer.json"
    assert vocabulary.digest == load_tokenizer(str(sound), do_lower_case=None).digest


def test_a_tokenizer_json_keeps_its_own_limits_and_case(tmp_path):
    vocabulary = load_tokenizer(write(tmp_path / "vocab.txt", TOKENS), do_lower_case=False)
    parts = json.loads(vocabulary.tokenizer_json)
    parts["model"]["max_input_chars_per_word"] = 3
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(parts))
    own = load_tokenizer(str(path), do_lower_case=None)
    assert not own.do_lower_case
    assert ids(own, "the cats") == [6, own.unk_id]
    assert load_tokenizer(str(path), do_lower_case=False) == own
    assert "does not lower-case" in refused(str(path), do_lower_case=True)


def test_lower_casing_what_is_not_to_be_lower_cased(shared):
    folder = shared / "data" / "vocab"
    cased = str(folder / "bert-base-cased-vocab.txt")
    capitals, accents = load_tokenizer(cased, do_lower_case=True).warnings
    assert "8,366 of the vocabulary's 28,996 entries have upper-case letters" in capitals
    assert "581 of the vocabulary's 28,996 entries have accents" in accents
    token, i = "The", load_tokenizer(cased, do_lower_case=False).tokens.index("The")
    assert f"{token!r} (id {i})" in capitals
    assert load_tokenizer(cased, do_lower_case=False).warnings == ()
    uncased = str(folder / "bert-base-uncased-vocab.txt")
    assert load_tokenizer(uncased, do_lower_case=True).warnings == ()
    (warning,) = load_tokenizer(uncased, do_lower_case=False).warnings
    assert "none of the vocabulary's 30,522 entries have upper-case letters" in warning


def test_special_tokens_in_the_wrong_case_are_named(shared):
    text = refused(str(shared / "data" / "bad" / "vocab-lowercase-specials.txt"))
    assert "has no [UNK] [CLS] [SEP] [MASK]" in text
    assert "it has [unk] [cls] [sep] [mask]" in text


def test_missing_special_tokens_are_named(tmp_path):
    path = write(tmp_path / "vocab.txt", [token for token in TOKENS if token != "[MASK]"])
    assert refused(path).endswith("has no [MASK]")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("vocab.txt", b"", "empty"),
        ("vocab.txt", b" \n\r\n", "empty"),
        ("vocab.txt", "[PAD]\nüber\n".encode("latin-1"), "not UTF-8"),
        ("tokenizer.json", b"", "empty"),
        ("tokenizer.json", b'{"model": ', "broken JSON at line 1"),
        ("tokenizer.json", b"[1, 2]", 'no "model"'),
        ("tokenizer.json", b'{"hello": 1}', 'no "model"'),
        ("tokenizer.json", b'{"model": {"type": "Magic"}}', "cannot be read by"),
        ("vocabulary", b'{"model": {"type": "Magic"}}', "cannot be read by"),
    ],
)
def test_files_that_are_no_vocabulary(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    reason = reason.replace("cannot be read by", "not a tokenizer that the tokenizers library")
    text = refused(str(path))
    assert reason in text
    assert str(path) in text


def test_files_that_are_not_there(tmp_path):
    assert "No such file" in refused(str(tmp_path / "absent.txt"))
    assert "cannot be read" in refused(str(tmp_path))
    assert "cannot be read" in refused("nowhere://bucket/vocab.txt")


def test_a_path_with_a_scheme_is_read_by_beam(tmp_path):
    from apache_beam.io import filesystems, localfilesystem

    class Remote(localfilesystem.LocalFileSystem):
        @classmethod
        def scheme(cls):
            return "remote"

        def open(self, path, *args, **kwargs):
            return super().open(path.removeprefix("remote:/"), *args, **kwargs)

    assert Remote in filesystems.FileSystem.get_all_subclasses()
    path = write(tmp_path / "vocab.txt", TOKENS)
    remote = load_tokenizer(f"remote:/{path}", do_lower_case=None)
    assert remote == load_tokenizer(path, do_lower_case=None)
