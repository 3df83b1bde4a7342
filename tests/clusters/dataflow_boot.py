"""What the boot program of Beam's images does once the packages are installed: becomes Beam's worker.

It is run by the Python of the environment that the packages are in, and imports nothing of the tests.
"""

import argparse
import importlib
import json
import os
import runpy
import sys

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
from google.protobuf import json_format, text_format

parser = argparse.ArgumentParser()
for flag in ("id", "provision_endpoint"):
    parser.add_argument(f"--{flag}")
given, _ = parser.parse_known_args()
worker_id = given.id.strip("'\"")

# Beam's worker is started in the folder that it is in, which is what it would see first.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
packages = ("pipeline", "runners", "schemas", "transforms")
modules = {name: importlib.import_module(name).__file__ for name in packages}
with open(os.environ["MODULES_FILE"], "w") as file:
    json.dump(modules, file)

channel = grpc.insecure_channel(given.provision_endpoint)
stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
info = stub.GetProvisionInfo(
    beam_provision_api_pb2.GetProvisionInfoRequest(), metadata=[("worker_id", worker_id)]
).info
channel.close()
os.environ |= {
    "WORKER_ID": worker_id,
    "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
    "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.logging_endpoint),
    "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.control_endpoint),
    "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
}
# In this process: Prism gives a worker a minute, and most of that may be imports.
sys.argv[1:] = []
runpy.run_module("apache_beam.runners.worker.sdk_worker_main", run_name="__main__")
