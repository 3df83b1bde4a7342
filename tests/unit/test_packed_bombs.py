"""A small packed file that holds a great deal: it is read in bounded memory, however its content is cut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds import ROOT
from tests.unit.compressing import COMPRESS

MEMBER = 16 << 20
#: What unpacks to 384 MiB, or 1 GiB, is read with less than half of that.
UNPACKED, MOST_BYTES = 24 * MEMBER, 192 << 20

#: Reads a file as a worker does, and prints what it took, beyond what reading a small one takes.
READ = """
import json, resource, sys
from collections import Counter
from transforms.reader import read_task
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads

def read(path):
    found = Counter()
    tasks = plan_reads(list_inputs([path], format="jsonl"), num_stripes=1, range_bytes=None)
    for task in tasks:
        for output, batch in read_task(task):
            found.update(batch["reason"].to_pylist() if output == "rejects" else ["document"] * len(batch))
    return found

read(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = read(sys.argv[2])
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([found, used << 10]))
"""


def read_apart(
    folder: Path, content: bytes, codec: str, *, unpacked: int = UNPACKED
) -> tuple[dict[str, int], int]:
    """What came of a file of one member after the other with this content; and bytes of memory."""
    small, path = folder / "small.jsonl", folder / f"bomb.jsonl.{codec}"
    small.write_text('{"text": "One."}\n')
    path.write_bytes(COMPRESS[codec](content) * (unpacked // len(content)))
    assert path.stat().st_size < unpacked / 100
    done = subprocess.run(
        [sys.executable, "-c", READ, small, path],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found, used = json.loads(done.stdout.splitlines()[-1])
    return found, used


@pytest.mark.parametrize(("codec", "unpacked"), [("gz", 1 << 30), ("zst", UNPACKED)])
def test_one_record_without_end(tmp_path, codec, unpacked):
    found, used = read_apart(tmp_path, b"{" * MEMBER, codec, unpacked=unpacked)
    assert found == {"too_long": 1}
    assert used < MOST_BYTES


def test_small_records_without_end(tmp_path):
    line = json.dumps({"text": "A stone went slowly over the river. " * 50}).encode() + b"\n"
    content = line * (MEMBER // len(line))
    found, used = read_apart(tmp_path, content, "gz")
    assert found == {"document": UNPACKED // len(content) * (MEMBER // len(line))}
    assert used < MOST_BYTES
