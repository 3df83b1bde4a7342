"""runners/images/: the examples for containers say what the tests of clusters run."""

from __future__ import annotations

import re

import pytest

from tests.builds import ROOT

yaml = pytest.importorskip("yaml")

IMAGES = ROOT / "runners" / "images"
POOL = ["python", "-m", "apache_beam.runners.worker.worker_pool_main"]
POOL_FLAGS = ["--service_port=50000", "--container_executable=bert-data-worker"]


def properties(text: str) -> dict[str, object]:
    return yaml.safe_load(text)


@pytest.fixture
def compose():
    return yaml.safe_load((IMAGES / "compose.yaml").read_text(encoding="utf8"))["services"]


@pytest.fixture
def kubernetes():
    """By kind and name."""
    documents = yaml.safe_load_all((IMAGES / "kubernetes.yaml").read_text(encoding="utf8"))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def test_each_task_manager_of_compose_has_a_pool_of_its_own(compose):
    managers = {name for name in compose if name.startswith("taskmanager")}
    pools = {name: each for name, each in compose.items() if name.startswith("pool")}
    assert len(managers) == 2
    assert {each["network_mode"] for each in pools.values()} == {f"service:{m}" for m in managers}
    assert len(pools) == len(managers)
    for pool in pools.values():
        assert pool["entrypoint"] == POOL
        assert pool["command"] == POOL_FLAGS
    (volumes,) = {tuple(each["volumes"]) for each in compose.values()}
    assert volumes == ("${DATA}:${DATA}",)


def test_each_pod_of_kubernetes_has_a_pool_of_its_own(kubernetes):
    pods = kubernetes["Deployment", "flink-taskmanager"]["spec"]["template"]
    manager, pool = pods["spec"]["containers"]
    assert manager["args"] == ["taskmanager"]
    assert pool["command"] == POOL
    assert pool["args"] == POOL_FLAGS
    for kind in ("jobmanager", "taskmanager"):
        spec = kubernetes["Deployment", f"flink-{kind}"]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        (reference,) = spec["template"]["spec"]["containers"][0]["envFrom"]
        assert ("ConfigMap", reference["configMapRef"]["name"]) in kubernetes
    service = kubernetes["Service", "flink-jobmanager"]["spec"]
    labels = kubernetes["Deployment", "flink-jobmanager"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"] == labels
    manager_ports = kubernetes["Deployment", "flink-jobmanager"]["spec"]["template"]["spec"]
    opened = {port["containerPort"] for port in manager_ports["containers"][0]["ports"]}
    assert opened == {port["port"] for port in service["ports"]}


def test_the_clusters_are_configured_as_the_page_says(compose, kubernetes):
    page = (ROOT / "docs" / "flink.md").read_text(encoding="utf8")
    (block,) = re.findall(r"^```\n(restart-strategy.*?)^```$", page, re.M | re.S)
    wanted = properties(block)
    config = kubernetes["ConfigMap", "flink"]["data"]["FLINK_PROPERTIES"]
    compose_config = compose["jobmanager"]["environment"]["FLINK_PROPERTIES"]
    for text, host in ((config, "flink-jobmanager"), (compose_config, "jobmanager")):
        found = properties(text)
        assert wanted.items() <= found.items()
        assert found["jobmanager.rpc.address"] == host
    assert ("Service", "flink-jobmanager") in kubernetes
    assert "jobmanager" in compose
    for flag in POOL_FLAGS:
        assert flag in page


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_the_command_in_the_head_is_one_that_bert_data_takes(name):
    from pipeline.flags import build_parser

    head = re.match(r"(#.*\n)+", (IMAGES / name).read_text(encoding="utf8"))
    assert head
    text = re.sub(r"^# ?", "", head[0], flags=re.M).replace("\\\n", " ")
    (command,) = re.findall(r"bert-data build .*", text)
    flags = {*re.findall(r"--[a-z_]+", command)}
    known = {*build_parser()._option_string_actions}
    assert flags - known == {"--flink_master", "--environment_type", "--environment_config"}
    assert "--environment_config localhost:50000" in command
