"""docs/runners.md and the README are true: their commands run as they are written, to the same rows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions
from apache_beam.utils.subprocess_server import JavaJarServer

from tests.builds import DATA, ROOT, digests
from tests.clusters.conftest import PATIENCE

pytestmark = [pytest.mark.runners, pytest.mark.timeout(4 * PATIENCE)]

PAGE = (ROOT / "docs" / "runners.md").read_text(encoding="utf8")
README = (ROOT / "README.md").read_text(encoding="utf8")


def blocks_of(text: str) -> list[str]:
    return re.findall(r"^```bash\n(.*?)^```$", text, re.M | re.S)


EACH, ON_A_CLUSTER = blocks_of(PAGE)


@pytest.fixture
def place(tmp_path, runners):
    """A copy of what a clone has, ``bert-data``, and what Beam and Go fetch where they put it."""
    shutil.copytree(DATA, tmp_path / "tests" / "data")
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "bert-data"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pipeline "$@"\n')
    command.chmod(0o755)
    (programs / "prism").symlink_to(runners / "prism")
    jars = tmp_path / ".apache_beam" / "cache" / "jars"
    jars.mkdir(parents=True)
    newest = PipelineOptions([]).view_as(FlinkRunnerOptions).flink_version
    for kind, versions in (("flink", ("1.19", newest)), ("spark", ("3",))):
        (jars / f"{kind}-jars").symlink_to(runners / f"{kind}-jars")
        for version in versions:
            url = JavaJarServer.path_to_beam_jar(f":runners:{kind}:{version}:job-server:shadowJar")
            shutil.copy(runners / f"{kind}-job-server.jar", jars / os.path.basename(url))
    return tmp_path


def run(place, text: str, **variables: str) -> str:
    paths = [str(place / "bin"), str(ROOT / "bin"), os.environ["PATH"]]
    settings = {"PATH": os.pathsep.join(paths), "HOME": str(place), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-ec", text],
        cwd=place,
        env={**os.environ, **settings, **variables},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_for_each_runner(place):
    assert re.findall(r"--runner (\w+)", EACH) == ["local", "prism", "flink", "spark"]
    run(place, EACH)
    expected = digests(place / "out" / "local")
    assert expected
    for runner in ("prism", "flink", "spark"):
        assert digests(place / "out" / runner) == expected


def test_the_commands_for_a_cluster(place, cluster):
    run(place, EACH.splitlines()[0])
    said = run(place, ON_A_CLUSTER, FLINK_MASTER=cluster.rest)
    assert f"The job: http://{cluster.rest}/#/job/" in said
    assert "All of it holds" in said
    assert digests(place / "out" / "cluster") == digests(place / "out" / "local")


def test_the_readmes_commands_are_among_them():
    (block,) = (block for block in blocks_of(README) if "--runner" in block)
    assert {*block.splitlines()} < {*EACH.splitlines()}
