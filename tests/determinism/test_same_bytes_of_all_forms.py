"""The same documents as text, JSON lines, Parquet, Avro, a saved data set, gz and zst: the same shards."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pyarrow as pa
import pytest

from tests.builds import DATA, build_here, digests, documents_of, write_text
from tests.unit.compressing import COMPRESS
from tests.unit.tables import write_avro, write_parquet

datasets.disable_progress_bars()

#: The lines of the text are its sentences.
SETTINGS = {
    "num_shards": 2,
    "max_seq_length": (64,),
    "dupe_factor": 2,
    "sentence_splitter": "none",
}
TEXTS = ["\n".join(lines) for lines in documents_of(DATA / "sentences.txt")]


def write(form: str, folder: Path) -> Path:
    path = folder / f"a.{form}"
    if form == "saved":
        datasets.Dataset.from_dict({"text": TEXTS[::-1]}).save_to_disk(path, num_shards=2)
    elif form == "parquet":
        write_parquet(path, pa.table({"text": TEXTS[::-1]}), row_group_size=3)
    elif form == "avro":
        write_avro(path, [{"text": text} for text in TEXTS])
    elif form.startswith("jsonl"):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in reversed(TEXTS))
        path.write_bytes(COMPRESS[form.partition(".")[2] or "none"](lines.encode()))
    else:
        text = write_text(folder / "text", [text.split("\n") for text in TEXTS]).read_bytes()
        (folder / "text").unlink()
        path.write_bytes(COMPRESS[form.partition(".")[2] or "none"](text))
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("expected")
    manifest = build_here(write("txt", folder), output=folder / "out", **SETTINGS)
    assert manifest.counts.documents == len(TEXTS) > 10
    return digests(folder / "out")


FORMS = ["jsonl", "parquet", "avro", "saved", "txt.gz", "txt.zst", "jsonl.gz", "jsonl.zst"]


@pytest.mark.parametrize("form", FORMS)
def test_in_every_form(expected, tmp_path, form):
    build_here(write(form, tmp_path), output=tmp_path / "out", **SETTINGS)
    assert digests(tmp_path / "out") == expected
