"""What a flex template tells Dataflow of itself: its parameters, which are the flags of a build.

``python -m runners.images.template > runners/images/metadata.json`` writes it anew.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pipeline.config import BuildConfig
from pipeline.settings import Setting, Switch

__all__ = ["metadata"]

#: Settings that make no sense where a job is launched by a service: its files, its processes, its waiting.
_NOT_HERE = ("temp_dir", "shared_files", "shuffle", "runner", "num_workers", "wait")

_OF_FILES = {
    "input": ("GCS_READ_FILE", r"^gs://.+$"),
    "vocab_file": ("GCS_READ_FILE", r"^gs://.+$"),
    "output": ("GCS_WRITE_FOLDER", r"^gs://.+$"),
}


def metadata() -> dict[str, Any]:
    """The description, as ``gcloud dataflow flex-template build --metadata-file`` wants it."""
    return {
        "name": "BERT pre-training data",
        "description": "Raw text in, masked examples for BERT's pre-training out, as sharded Parquet.",
        "streaming": False,
        "parameters": [
            _parameter(field)
            for field in dataclasses.fields(BuildConfig)
            if field.name not in _NOT_HERE
        ],
    }


def _parameter(field: dataclasses.Field[Any]) -> dict[str, Any]:
    setting: Setting = field.metadata["setting"]
    described: dict[str, Any] = {
        "name": field.name,
        "label": field.name.replace("_", " ").capitalize(),
        "helpText": f"{setting.help} ({setting.kind.allowed})",
        "isOptional": field.default is not dataclasses.MISSING,
    }
    if field.name in _OF_FILES:
        described["paramType"], pattern = _OF_FILES[field.name]
        described["regexes"] = [pattern]
    elif isinstance(setting.kind, Switch):
        described["regexes"] = ["^(true|false)$"]
    return described


if __name__ == "__main__":
    print(json.dumps(metadata(), indent=2))
