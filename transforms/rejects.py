"""WriteRejects: the refused records as JSON lines beside the data set, counted by reason."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections import Counter
from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from transforms import coders
from transforms.atomic import atomic_write

__all__ = ["REJECTS_FOLDER", "WriteRejects", "write_rejects"]

REJECTS_FOLDER = "rejects"

_CODER = coders.ArrowBatchCoder  # its import registers it


def write_rejects(batch: pa.RecordBatch, *, output: str) -> dict[str, int]:
    """Write one ``REJECT_BATCH`` to ``OUTPUT/rejects/<digest of the content>.jsonl``.

    A replay of the same batch writes the same bytes to the same name.

    Returns:
      How many records for each reason.

    Raises:
      OSError: the file cannot be written.
    """
    rows = batch.to_pylist()
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    name = hashlib.blake2b(content, digest_size=16).hexdigest() + ".jsonl"
    with atomic_write(posixpath.join(output, REJECTS_FOLDER, name)) as file:
        file.write(content)
    return dict(sorted(Counter(row["reason"] for row in rows).items()))


class WriteRejects(beam.PTransform):
    """Write every ``REJECT_BATCH``; one ``{reason: count}`` for each comes out.

    Args:
      output: the data set's directory.
    """

    def __init__(self, output: str):
        super().__init__()
        self.output = output

    def expand(self, rejects: beam.PCollection) -> beam.PCollection:
        """Wire it."""
        return rejects | "WriteRejectBatches" >> beam.ParDo(_WriteRejects(self.output))


@beam.typehints.with_output_types(dict[str, int])
class _WriteRejects(beam.DoFn):
    def __init__(self, output: str):
        super().__init__()
        self._output = output
        self._rejects = Metrics.counter("WriteRejects", "rejects")
        self._files = Metrics.counter("WriteRejects", "files")

    def process(self, batch: pa.RecordBatch) -> Iterator[dict[str, int]]:
        counts = write_rejects(batch, output=self._output)
        self._rejects.inc(batch.num_rows)
        self._files.inc()
        yield counts
