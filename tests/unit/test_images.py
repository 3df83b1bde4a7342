"""What images are made of, as far as that can be told without building one."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from pipeline.flags import parse_build
from runners.images.template import metadata
from tests.builds import ROOT

IMAGES = ROOT / "runners" / "images"
WORKER = IMAGES / "Dockerfile"

#: What Google documents of a parameter, and of the whole.
PARAMETER = {"name", "label", "helpText", "isOptional", "regexes", "paramType"}
DESCRIPTION = {"name", "description", "streaming", "parameters"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """The lines of a Dockerfile, continued ones joined, as (instruction, the rest)."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE))
    parts = (line.split(None, 1) for line in text.splitlines() if line.strip())
    return [(first, rest) for first, rest in parts]


def setup_keywords(monkeypatch) -> dict:
    """What setup.py says."""
    import setuptools  # type: ignore[import-untyped]

    said: dict = {}
    monkeypatch.setattr(setuptools, "setup", said.update)
    runpy.run_path(str(ROOT / "setup.py"))
    return said


def test_the_template_is_described_as_the_flags_are():
    assert json.loads((IMAGES / "metadata.json").read_text()) == metadata()


def test_the_description_is_what_google_documents():
    described = metadata()
    assert set(described) == DESCRIPTION
    names = [each["name"] for each in described["parameters"]]
    assert len(names) == len(set(names))
    for each in described["parameters"]:
        assert {"name", "label", "helpText"} <= set(each) <= PARAMETER
        for pattern in each.get("regexes", ()):
            re.compile(pattern)
    required = {each["name"] for each in described["parameters"] if not each["isOptional"]}
    assert required == {"input", "vocab_file", "output"}


def test_googles_own_messages_take_the_description():
    dataflow = pytest.importorskip("google.cloud.dataflow")
    from google.protobuf import json_format

    message = dataflow.TemplateMetadata.pb(dataflow.TemplateMetadata())
    json_format.ParseDict(metadata(), message, ignore_unknown_fields=False)
    assert len(message.parameters) == len(metadata()["parameters"])


def test_parameters_as_the_launcher_gives_them_are_flags():
    given = {
        "input": "gs://b/a.jsonl,gs://b/b.jsonl",
        "vocab_file": "gs://b/vocab.txt",
        "output": "gs://b/out",
        "do_whole_word_mask": "true",
        "max_seq_length": "128,512",
        "split_long_sentences": "false",
    }
    assert set(given) <= {each["name"] for each in metadata()["parameters"]}
    beams = ["--runner=DataflowRunner", "--project=p", "--template_location=gs://b/t"]
    flags = [f"--{name}={value}" for name, value in given.items()]
    config, beam_args = parse_build([*flags, *beams, "--no-wait"])
    assert config.input == ("gs://b/a.jsonl", "gs://b/b.jsonl")
    assert config.do_whole_word_mask
    assert config.max_seq_length == (128, 512)
    assert not config.split_long_sentences
    assert not config.wait
    assert beam_args == ["--project=p", "--template_location=gs://b/t"]


def test_the_workers_image_copies_what_setup_py_names(monkeypatch):
    copied = [rest.split() for first, rest in instructions(WORKER) if first == "COPY"]
    sources = {name for names in copied if not names[0].startswith("--") for name in names[:-1]}
    for name in sources:
        assert (ROOT / name).exists(), name
    packages = {name.partition(".")[0] for name in setup_keywords(monkeypatch)["packages"]}
    assert packages <= sources
    assert {"setup.py", "constraints.txt"} <= sources


def test_the_workers_image_has_the_beam_of_the_constraints():
    versions = dict(
        rest.split("=") for first, rest in instructions(WORKER) if first == "ARG" and "=" in rest
    )
    assert f"apache-beam=={versions['BEAM']}\n" in (ROOT / "constraints.txt").read_text()
    froms = [rest for first, rest in instructions(WORKER) if first == "FROM"]
    assert froms[0] == "apache/beam_python${PYTHON}_sdk:${BEAM} AS beam"


def test_the_workers_image_asks_no_index_after_its_one_install():
    runs = [rest for first, rest in instructions(WORKER) if first == "RUN"]
    assert [run.split()[2] for run in runs] == ["pip", "runners.images.warm"]
    assert "--constraint constraints.txt" in runs[0]
    assert instructions(WORKER)[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')


def test_the_templates_image_starts_our_launcher():
    steps = instructions(IMAGES / "Dockerfile.template")
    script = next(rest for first, rest in steps if first == "ENV").partition("=")[2]
    copied = [rest.split() for first, rest in steps if first == "COPY"]
    assert ["runners/images/launch.py", script] in copied
    assert (ROOT / "runners/images/launch.py").is_file()
