"""The word cache: exact ids of BERT's tokenizers at the speed of a table look-up.

BERT's normalizer and pre-tokenizer treat chunks between white space independently and set every
punctuation and CJK character apart. So the ids of a text are the ids of its units (see
:mod:`transforms.word_scan`), one after another, and a unit needs to be tokenized only once. The
``tokenizers`` library stays the only authority on ids: it resolves every unit that is not in the
table. A tokenizer made of other parts takes the plain path, :class:`PlainEncoder`.

Only the encoders live here.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pyarrow as pa

from schemas.arrow import id_dtype
from transforms.vocabulary import Vocabulary
from transforms.word_ids import count_ids, write_ids
from transforms.word_resolver import UnitResolver
from transforms.word_scan import COUNT_BITS, FOLD, ID_BITS, LONGEST, PADDING, PENDING, SLOT, look_up
from transforms.word_units import byte_classes, isolated_characters, word_property_obstacle

__all__ = ["PlainEncoder", "WordCache"]

#: Text is encoded in blocks of about this many bytes: what is written per unit stays in the cache.
_BLOCK_BYTES = 1 << 19


class PlainEncoder:
    """The library on whole sentences, for tokenizers without the word property. Thread-safe.

    A model may have its special tokens among its words, so that text which spells one gets its id
    though the library looks for none: that is [UNK] here, since text is never a special token.
    """

    def __init__(self, vocabulary: Vocabulary):
        self._tokenizer = vocabulary.tokenizer()
        self._unk_id = vocabulary.unk_id
        self._special_ids = np.array(vocabulary.special_ids)
        self._dtype = id_dtype(vocabulary.vocab_size)

    def encode(self, sentences: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of each sentence, without special tokens, as the library gives them.

        Returns:
          ids (uint16 or uint32, flat) and offsets (int64 [sentences + 1]): sentence i has
          ``ids[offsets[i]:offsets[i + 1]]``.
        """
        texts = [text or "" for text in sentences.to_pylist()]
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(encoding) for encoding in encodings], out=offsets[1:])
        ids = np.empty(offsets[-1], self._dtype)
        for i, encoding in enumerate(encodings):
            ids[offsets[i] : offsets[i + 1]] = encoding.ids
        ids[np.isin(ids, self._special_ids)] = self._unk_id
        return ids, offsets


class WordCache:
    """Ids of sentences, from a table of the units seen so far. Exact; thread-safe by a lock.

    The cache is bounded: when it is full, further units are resolved without being stored, and
    before the next block of text it is emptied. What it holds never changes an id.

    Attributes:
      misses: units that the library has resolved so far.
      resets: how often the cache was full.
    """

    def __init__(self, vocabulary: Vocabulary, *, max_entries: int = 1 << 19):
        obstacle = word_property_obstacle(vocabulary.tokenizer_json)
        if obstacle is not None:
            raise ValueError(f"not a tokenizer for the word cache: {obstacle}")
        self.misses = 0
        self.resets = 0
        self._lock = threading.Lock()
        self._dtype = id_dtype(vocabulary.vocab_size)
        self._resolver = UnitResolver(vocabulary)
        parts = json.loads(vocabulary.tokenizer_json)
        self._fold = np.uint64(FOLD if parts["normalizer"]["lowercase"] else 0)
        self._isolated = isolated_characters(
            vocabulary.tokenizer(), chinese=parts["normalizer"]["handle_chinese_chars"]
        )
        self._classes = byte_classes(self._isolated)
        # At most half full. Slots of 32 bytes that start at a multiple of 64 never straddle lines.
        slots = 1 << max(4, (2 * max_entries - 1).bit_length())
        self._table = _aligned_zeros(slots * SLOT)
        # The last key may begin just below the limit, and the next one is written to be compared.
        self._keys = np.empty(2 * max_entries + 2 * (LONGEST // 8), np.uint64)
        self._used = np.array([0, max_entries, 0, 2 * max_entries], np.int64)
        self._pool = np.empty(max_entries, np.uint32)
        self._pool_used = 0
        self._max_pool = 8 * max_entries
        self._text = np.empty(0, np.uint8)
        self._values = np.empty(0, np.uint64)
        self._missed = np.empty((0, 4), np.int64)
        self._reserve(_BLOCK_BYTES)

    def encode(self, sentences: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of each sentence, without special tokens, as the library gives them.

        Returns:
          ids (uint16 or uint32, flat) and offsets (int64 [sentences + 1]): sentence i has
          ``ids[offsets[i]:offsets[i + 1]]``.
        """
        text, offsets = _buffers(sentences)
        parts = []
        out = np.zeros(len(offsets), np.int64)
        first = 0
        with self._lock:
            while first < len(offsets) - 1:
                stop = np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right") - 1
                last = max(int(stop), first + 1)
                ids, ends = self._encode_block(text, offsets[first : last + 1])
                parts.append(ids)
                out[first + 1 : last + 1] = out[first] + ends[1:]
                first = last
        return np.concatenate([np.empty(0, self._dtype), *parts]), out

    def _encode_block(self, text: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        used = self._used
        if used[0] >= used[1] or used[2] >= used[3] or self._pool_used >= self._max_pool:
            self._reset()
            self.resets += 1
        offsets, begin, size = offsets - offsets[0], offsets[0], int(offsets[-1] - offsets[0])
        self._reserve(size)
        self._text[:size] = text[begin : begin + size]
        self._text[size : size + PADDING] = ord(" ")
        unit_offsets = np.empty(len(offsets), np.int64)
        kept = self._pool_used
        try:
            missed = look_up(
                self._text,
                offsets,
                self._classes,
                self._isolated,
                self._fold,
                self._table,
                self._keys,
                used,
                self._values,
                unit_offsets,
                self._missed,
            )
            of_misses, kept = self._settle(self._missed[:missed])
        except BaseException:
            self._reset()  # entries may still be pending
            raise
        values = self._values[: unit_offsets[-1]]
        total = count_ids(values, of_misses)
        ids = np.empty(total + 2, self._dtype)
        ends = np.empty(len(offsets), np.int64)
        write_ids(values, unit_offsets, of_misses, self._pool, ids, ends)
        self._pool_used = kept
        return ids[:total], ends

    def _settle(self, missed: np.ndarray) -> tuple[np.ndarray, int]:
        """Resolve the misses and enter those that are to be stored.

        Returns:
          The values of the misses, and how much of the pool must be kept after this block.
        """
        self.misses += len(missed)
        of_misses = np.empty(len(missed), np.uint64)
        kept = self._pool_used
        for stored in (True, False):
            for plain in (True, False):
                which = np.flatnonzero(((missed[:, 2] >= 0) == stored) & (missed[:, 3] == plain))
                if len(which):
                    ids, counts = self._resolver.resolve(
                        self._text, missed[which], fold=self._fold, plain=plain
                    )
                    of_misses[which] = self._pack(ids, counts)
                    if stored:
                        self._table[missed[which, 2] + (SLOT - 1)] = of_misses[which]
            if stored:
                kept = self._pool_used
        return of_misses, kept

    def _pack(self, ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Append the ids to the pool and make the values of their units."""
        if counts.max(initial=0) >= PENDING:
            raise OverflowError(f"a run of text without white space has {counts.max():,} tokens")
        begin, end = self._pool_used, self._pool_used + len(ids)
        if end + 2 > len(self._pool):
            self._pool = np.concatenate([self._pool, np.empty(end + 2, np.uint32)])
        self._pool[begin:end] = ids
        self._pool_used = end
        where = begin + np.cumsum(counts) - counts
        first, second = self._pool[where].astype(np.uint64), self._pool[where + 1].astype(np.uint64)
        inline = np.where(counts > 0, first, 0) | np.where(counts > 1, second, 0) << ID_BITS
        rest = np.where(counts <= 2, inline, where.astype(np.uint64))
        return counts.astype(np.uint64) | rest << np.uint64(COUNT_BITS)

    def _reserve(self, size: int) -> None:
        """Room for a block of ``size`` bytes; the arrays are kept, as new ones cost page faults."""
        if size > len(self._values):
            self._text = np.empty(size + PADDING, np.uint8)
            self._values = np.empty(size, np.uint64)
            self._missed = np.empty((size, 4), np.int64)

    def _reset(self) -> None:
        self._table.fill(0)
        self._used[0] = self._used[2] = 0
        self._pool_used = 0


def _buffers(sentences: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes (uint8) and the offsets (int64 [sentences + 1]) of an array, sliced or not."""
    if sentences.type != pa.large_string():
        raise TypeError(f"sentences are {sentences.type}, not large_string")
    _, ends, text = sentences.buffers()
    if len(sentences) == 0 or ends is None or text is None:
        return np.empty(0, np.uint8), np.zeros(len(sentences) + 1, np.int64)
    offsets = np.frombuffer(ends, np.int64)[sentences.offset :][: len(sentences) + 1]
    return np.frombuffer(text, np.uint8), offsets


def _aligned_zeros(words: int) -> Any:
    """A uint64 array that begins at a multiple of 64 bytes."""
    memory = np.zeros(words + 8, np.uint64)
    skip = -memory.ctypes.data % 64 // 8
    return memory[skip : skip + words]
