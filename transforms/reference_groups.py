"""ReadReferenceGroups: file groups to blocks of token ids, each as one invocation of Google's script.

Takes the place of the steps from ReadDocuments to GroupIntoBlocks where ``--exact_reference`` is on: what
the script writes hangs on the order of its documents, so that there is nothing to split or to shuffle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from transforms import progress
from transforms.inputs import InputFile
from transforms.reference_documents import read_group
from transforms.reference_examples import group_batch
from transforms.reference_tokenizer import ReferenceEncoder
from transforms.vocabulary import Vocabulary

__all__ = ["FileGroup", "ReadReferenceGroups"]


@dataclasses.dataclass(frozen=True)
class FileGroup:
    """The files of one invocation of the script.

    Attributes:
      index: its number, from 0, and that of its block.
      files: in the order in which they are read.
    """

    index: int
    files: tuple[InputFile, ...]


class ReadReferenceGroups(beam.PTransform):
    """``(block, token batches)`` out, one element for each group, documents in their order.

    Args:
      groups: what there is to read; they are spread over the workers.
      vocabulary: of ``transforms.reference_tokenizer.reference_vocabulary``.
    """

    def __init__(self, groups: Iterable[FileGroup], vocabulary: Vocabulary):
        super().__init__()
        self.groups = tuple(groups)
        self.vocabulary = vocabulary

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        numbered = [(group.index, group) for group in self.groups]
        return (
            begin
            | "ListGroups" >> beam.Create(numbered).with_output_types(tuple[int, FileGroup])
            # Runners deal out the groups of a GroupByKey evenly; a Create stays with one worker.
            | "SpreadGroups" >> beam.GroupByKey()
            | "ReadGroup"
            >> beam.ParDo(_ReadGroup(self.vocabulary)).with_output_types(
                tuple[int, Iterable[pa.RecordBatch]]
            )
        )


class _ReadGroup(beam.DoFn):
    """``(index, the one group)`` in; what it gives is taken by the next step in the same process."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._counters = {
            name: Metrics.counter("ReadReferenceGroups", name)
            for name in ("documents", "bytes", "sentences", "tokens", "slow_lines")
        }

    def setup(self) -> None:
        self._encoder = ReferenceEncoder(self._vocabulary)

    def process(
        self, element: tuple[int, Iterable[FileGroup]]
    ) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        for group in element[1]:
            slow_lines = self._encoder.slow_lines
            documents = read_group(
                [(file.path, file.compression) for file in group.files],
                self._encoder,
                report=lambda size: progress.report(text_bytes=size),
            )
            progress.report(
                raw_bytes=sum(file.size for file in group.files),
                documents=len(documents.keys) + documents.num_empty,
            )
            for name, value in (
                ("documents", len(documents.keys)),
                ("bytes", documents.text_bytes),
                ("sentences", len(documents.sentence_offsets) - 1),
                ("tokens", len(documents.ids)),
                ("slow_lines", self._encoder.slow_lines - slow_lines),
            ):
                self._counters[name].inc(value)
            yield group.index, [group_batch(documents, vocab_size=self._vocabulary.vocab_size)]
