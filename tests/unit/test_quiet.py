"""What Beam's and gRPC's threads say when the job has ended before them."""

from __future__ import annotations

import subprocess
import sys

from tests.builds import ROOT

LATE = """
import logging, threading, grpc
from runners.quiet import without_beams_noise

logging.basicConfig()  # as Beam's options do
with without_beams_noise():
    logging.getLogger("apache_beam.x").error("within")

def late():
    for name in ("grpc._channel", "apache_beam.x", "mine"):
        logging.getLogger(name).error("late")
    raise kind("lost")

for kind in (grpc.RpcError, KeyError):
    thread = threading.Thread(target=late)
    thread.start()
    thread.join()
logging.getLogger("apache_beam.x").error("of the command")
"""


def test_threads_that_are_late_and_lost_their_server_say_nothing():
    command = [sys.executable, "-c", LATE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines[0] == lines[1] == "ERROR:mine:late"
    assert lines[-1] == "ERROR:apache_beam.x:of the command"
    assert lines[-2] == "KeyError: 'lost'"  # any other failure is seen
    assert not [line for line in lines if "RpcError" in line or "grpc" in line or "within" in line]
