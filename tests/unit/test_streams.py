"""A file's content is read whole, or the error says where it ends."""

from __future__ import annotations

import os
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.stores import local_path
from tests.unit.compressing import COMPRESS, make_text
from tests.unit.remote import MemoryFileSystem
from transforms import streams
from transforms.streams import ByteStream, DamagedStreamError, open_raw

CODECS = ("gz", "bz2", "xz", "zst")
TEXT = make_text(1_100_000)
PACKED = {codec: COMPRESS[codec](TEXT) for codec in CODECS}


def read(path, codec) -> tuple[bytes, DamagedStreamError | None]:
    content = bytearray()
    try:
        for piece in ByteStream(str(path), compression=codec):
            assert 0 < len(piece) <= 1 << 20
            content += piece
    except DamagedStreamError as error:
        return bytes(content), error
    return bytes(content), None


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_every_member_is_read(codec, tmp_path):
    pack = COMPRESS[codec]
    path = tmp_path / "file"
    path.write_bytes(pack(b"") + pack(TEXT) + pack(b"between") + pack(b"") + pack(TEXT[:5000]))
    assert read(path, codec) == (TEXT + b"between" + TEXT[:5000], None)


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_an_empty_file_has_no_content(codec, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert read(tmp_path / "file", codec) == (b"", None)
    (tmp_path / "file").write_bytes(COMPRESS[codec](b""))
    assert read(tmp_path / "file", codec) == (b"", None)


@pytest.mark.parametrize("codec", ["gz", "xz"])
def test_padding_is_no_damage(codec, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(PACKED[codec] + bytes(512) + PACKED[codec] + bytes(200_000))
    assert read(path, codec) == (TEXT + TEXT, None)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_a_file_that_is_cut_short_says_where(codec, share, tmp_path):
    packed = PACKED[codec]
    length = max(1, int((len(packed) - 1) * share))
    path = tmp_path / "short"
    path.write_bytes(packed[:length])
    content, error = read(path, codec)
    assert error is not None
    assert error.path == str(path)
    assert error.compressed_offset == length
    assert error.offset == len(content)
    assert str(path) in str(error)
    assert f"{length:,}" in str(error)
    assert TEXT.startswith(content)
    assert len(content) > len(TEXT) * share - 1_000_000 * (codec == "bz2") - 140_000


@pytest.mark.parametrize("codec", CODECS)
def test_what_comes_before_a_damaged_member_is_kept(codec, tmp_path):
    # The standard library's readers of bz2 and xz end here without a word.
    second = bytearray(COMPRESS[codec](TEXT[:50_000]))
    second[len(second) // 4] ^= 0x55
    second[len(second) // 2] ^= 0x55
    path = tmp_path / "file"
    path.write_bytes(PACKED[codec] + bytes(second) + PACKED[codec])
    content, error = read(path, codec)
    assert content.startswith(TEXT)
    if codec != "zst":  # which has no checksum here
        assert error is not None
        assert error.offset == len(content)
    third_member_was_read = len(content) > 2 * len(TEXT)
    assert error is None or not third_member_was_read


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_after_the_end_is_damage(codec, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(PACKED[codec] + b"garbage, and not a little of it")
    content, error = read(path, codec)
    assert content == TEXT
    assert error is not None
    assert error.offset == len(TEXT)


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_is_something_else_is_damage(codec, tmp_path):
    (tmp_path / "file").write_bytes(TEXT)
    content, error = read(tmp_path / "file", codec)
    assert content == b""
    assert error is not None
    assert error.offset == 0


SMALL = {codec: COMPRESS[codec](TEXT[:20_000]) * 2 for codec in CODECS}


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(CODECS), st.data())
def test_corruption_never_crashes_or_hangs(tmp_path_factory, codec, data):
    packed = bytearray(SMALL[codec])
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(1, 3 * len(packed))) :]
    path = tmp_path_factory.mktemp("fuzz") / "file"
    path.write_bytes(packed)
    content, error = read(path, codec)
    assert error is None or error.offset == len(content)
    # A damaged block of bzip2 may repeat one byte 46 million times, in runs of 255 of five bytes each.
    assert len(content) < 64 << 20
    if codec in ("gz", "bz2", "xz") and bytes(packed) != SMALL[codec]:
        # Their checksums find all but a cut between the members, or what nothing depends on.
        assert error or content in (TEXT[:20_000], TEXT[:20_000] * 2)


@pytest.mark.parametrize("codec", CODECS)
def test_memory_does_not_depend_on_what_is_inside(codec, tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(COMPRESS[codec](bytes(30_000_000)))
    tracemalloc.start()
    total = sum(len(piece) for piece in ByteStream(str(path), compression=codec))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 30_000_000
    assert peak < 16_000_000  # xz has a window of 8 MiB


def test_a_plain_file_is_read_from_anywhere_and_never_across_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(TEXT)
    stream = ByteStream(str(path), compression="none", start=1000, end=50_000)
    pieces = list(stream)
    assert b"".join(pieces) == TEXT[1000:]
    assert len(pieces[0]) == 49_000
    assert max(map(len, pieces[1:])) <= 1 << 16
    assert stream.raw_offset == len(TEXT)


def test_a_missing_file_is_no_damage(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        list(ByteStream(str(tmp_path / "gone"), compression="gz"))


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_a_failing_disk_is_no_damage(codec, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(COMPRESS[codec](TEXT))

    class Failing:
        def __init__(self, file):
            self.file = file
            self.reads = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def read(self, size):
            self.reads += 1
            if self.reads > 1:
                raise OSError(5, "Input/output error")
            return self.file.read(min(size, 1000))

    monkeypatch.setattr(streams, "open_raw", lambda path, **unused: Failing(open_raw(path)))
    with pytest.raises(OSError, match="Input/output error") as caught:
        list(ByteStream(str(path), compression=codec))
    assert any(str(path) in note for note in caught.value.__notes__)


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_other_file_systems(codec, monkeypatch):
    # The name says gz: Beam must not decompress behind our back.
    monkeypatch.setattr(MemoryFileSystem, "files", {"memory://box/a.gz": COMPRESS[codec](TEXT)})
    assert read("memory://box/a.gz", codec) == (TEXT, None)


def test_what_is_local():
    assert local_path("a/b.txt") == "a/b.txt"
    assert local_path("file:///a/b.txt") == "/a/b.txt"
    assert local_path("gs://a/b.txt") is None
    assert local_path("C:/a") == "C:/a"


def test_a_compressed_file_cannot_be_entered_in_the_middle(tmp_path):
    with pytest.raises(ValueError, match="beginning"):
        ByteStream(os.devnull, compression="gz", start=1)
    with pytest.raises(ValueError, match="lz4"):
        ByteStream(os.devnull, compression="lz4")
