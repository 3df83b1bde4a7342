"""docs/object_stores.md is true: its commands run as they are written."""

from __future__ import annotations

import re
import shlex

from pipeline.cli import main
from schemas.stores import require_store
from tests.builds import DATA, ROOT, VOCAB

TEXT = (ROOT / "docs" / "object_stores.md").read_text(encoding="utf8")


def test_its_commands_run(store, capsys):
    (block,) = re.findall(r"^```bash\n(bert-data plan.*?)^```$", TEXT, re.M | re.S)
    folder = f"{store.root}/docs"
    store.put_file(DATA / "documents.jsonl", "docs/corpus/documents.jsonl")
    store.put_file(VOCAB, "docs/vocab.txt")
    commands = [shlex.split(line.replace("$STORE", folder)) for line in block.splitlines()]
    assert [command[1] for command in commands] == ["plan", "build", "show", "check"]
    for program, *arguments in commands:
        assert program == "bert-data"
        assert main(arguments) == 0, capsys.readouterr().err
    assert "All of it holds" in capsys.readouterr().out


def test_flags_that_are_mentioned_exist():
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipeline.flags import build_parser

    parsers: list = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    known = {*build_parser()._option_string_actions, *parsers[0]._option_string_actions}
    assert {*re.findall(r"(?<![\w-])--[a-z][a-z_0-9]+", TEXT)} <= known


def test_what_it_says_to_install_is_what_the_errors_say(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for scheme in re.findall(r"`(\w+)://`", TEXT):
        try:
            require_store("input", f"{scheme}://box/a")
        except ValueError as error:
            (package,) = re.findall(r'pip install "[^"]+"', str(error))
            assert package in TEXT
        else:
            raise AssertionError(scheme)
