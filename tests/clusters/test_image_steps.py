"""The worker's image, as far as that needs no container: its steps in a fresh environment, and a worker
from there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.builds import DATA, ROOT, build_here, digests
from tests.clusters.job_servers import flags_of
from tests.kernels import lend_kernels
from tests.unit.test_images import WORKER, instructions

pytestmark = [pytest.mark.runners, pytest.mark.timeout(1800)]

#: By the Dockerfile's step; the others are this checkout's.
COMPILED_THERE = "masking.mask_rows"


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    """The folder of an environment in which the Dockerfile's steps have been run.

    What is third-party is this environment's: pip asks no index, and finds all that is required.
    """
    root = tmp_path_factory.mktemp("image")
    environment, source = root / "environment", root / "source"
    venv.create(environment, with_pip=False, symlinks=True)
    inside = environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (inside / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    variables = {**os.environ, "PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    variables.pop("PYTHONPATH", None)
    source.mkdir()
    here, said = source, ""
    for step, rest in instructions(WORKER):
        if step == "COPY" and not rest.startswith("--from"):
            *names, target = rest.split()
            for name in names:
                if (ROOT / name).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, source / target, ignore=ignored)
                else:
                    shutil.copy(ROOT / name, source)
        elif step == "ENV" and rest.startswith("NUMBA_CACHE_DIR="):
            variables |= {"NUMBA_CACHE_DIR": str(root / "kernels"), "NUMBA_DEBUG_CACHE": "1"}
            lend_kernels(inside / "transforms", root / "kernels", but=COMPILED_THERE)
            here = root  # the next WORKDIR
        elif step == "RUN":
            rest = rest.replace("${EXTRAS}", "gcp").replace("--no-cache-dir", "--no-index")
            rest = rest.replace("pip install", "pip install --no-build-isolation")
            done = subprocess.run(
                ["sh", "-c", rest], cwd=here, env=variables, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            said += done.stdout
    # What the step neither made nor took is not the image's.
    has = {*re.findall(r"data (?:saved to|loaded from) '(.+\.nbc)'", said)}
    for path in (root / "kernels").rglob("*.nbc"):
        if str(path) not in has:
            path.unlink()
    return root


def test_the_package_is_whole_and_its_kernels_are_compiled(image):
    found = subprocess.run(
        [image / "environment" / "bin" / "python", "-c", "import transforms; print(transforms.__file__)"],
        cwd=image, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(image / "environment"))
    (kernels,) = (image / "kernels").glob("kernels-*")
    assert len([*kernels.rglob("*.nbc")]) > 30
    assert len([*kernels.rglob(f"{COMPILED_THERE}-*.nbc")]) >= 2  # by the width of ids


def test_a_worker_from_there_writes_the_same_shards(image, runners, commands, tmp_path):
    worker = tmp_path / "worker"
    worker.write_text(
        f"#!/bin/sh\necho $* >> {tmp_path}/started\nexport NUMBA_CACHE_DIR={image}/kernels\n"
        f'exec env -u PYTHONPATH {image}/environment/bin/bert-data-worker "$@"\n'
    )
    worker.chmod(0o755)
    before = {path.name for path in (image / "kernels").rglob("*.nbc")}
    build_here(DATA / "documents.jsonl", output=tmp_path / "local", num_shards=2)
    config = f'--environment_config={{"command": "{worker}"}}'
    flags = [*flags_of("prism", runners), "--environment_type=PROCESS", config, "--num_shards=2"]
    done = commands.build(DATA / "documents.jsonl", tmp_path / "out", *flags).wait(600)
    assert done.code == 0, done.stderr
    assert digests(tmp_path / "out") == digests(tmp_path / "local")
    assert re.search(r"--id=", (tmp_path / "started").read_text())
    # Nothing had to be compiled for it.
    assert {path.name for path in (image / "kernels").rglob("*.nbc")} == before
