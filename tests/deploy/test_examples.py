"""The examples of deployment agree with themselves and with the program: no container is started here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from docs.pages import ROOT
from fakes.gateway import fronted
from slotline.cli import main
from slotline.config import Config, load
from slotline.config.units import parse_duration

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def accepted(arguments: Sequence[str]) -> None:
    """`slotline` takes these arguments."""
    name, *rest = arguments
    with main.commands[name].make_context(name, list(rest)):
        pass


def shared(config: Config) -> tuple[str, int]:
    """Where the server of the line is."""
    assert config.cluster is not None
    address = urlsplit(config.cluster.url)
    assert address.hostname is not None
    assert address.port is not None
    return address.hostname, address.port


# ---- the image -------------------------------------------------------------------------------------------------------

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
LINES = [line.split(maxsplit=1) for line in DOCKERFILE.replace("\\\n", "").splitlines() if line and line[0] != "#"]


def instruction(name: str) -> list[str]:
    return [rest for word, rest in LINES if word == name]


def words(name: str) -> list[str]:
    """Those of the one instruction in the form of a list."""
    (text,) = instruction(name)
    found: list[str] = yaml.safe_load(text)
    return found


def test_the_image_starts_the_program_as_a_user_without_rights() -> None:
    assert words("ENTRYPOINT") == list(PROJECT["scripts"])
    accepted(words("CMD"))
    (user,) = instruction("USER")
    assert int(user) > 0
    assert f"--uid {user} " in DOCKERFILE
    assert instruction("STOPSIGNAL") == ["SIGTERM"]
    assert instruction("EXPOSE") == [str(load("[engine]", source="").server.port)]


def test_the_image_is_built_from_what_is_there_with_extras_that_there_are() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [name for text in instruction("COPY") if "--from" not in text for name in text.split()[:-1]]
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    needed = {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "src"}
    assert set(copied) == needed
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    (version,) = set(re.findall(r"python:([\d.]+)-slim", DOCKERFILE))
    assert PROJECT["requires-python"] == f">={version}"


# ---- compose ---------------------------------------------------------------------------------------------------------

COMPOSE = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"]
COMPOSED = load((DEPLOY / "compose/slotline.toml").read_text(), source="deploy/compose/slotline.toml")
GATEWAYS = {name: service for name, service in COMPOSE.items() if name.startswith("gateway-")}


def test_two_gateways_have_the_same_file_the_same_line_and_time_to_drain() -> None:
    assert len(GATEWAYS) == 2
    for service in GATEWAYS.values():
        assert service["volumes"] == ["./slotline.toml:/etc/slotline/slotline.toml:ro"]
        assert words("CMD")[-1] in service["volumes"][0]
        assert parse_duration(service["stop_grace_period"]) > COMPOSED.server.drain
        (port,) = service["ports"]
        assert port.split(":")[0] == "127.0.0.1"  # the file has open = true
        assert int(port.rpartition(":")[2]) == COMPOSED.server.port
    assert shared(COMPOSED) == ("redis", 6379)
    assert len({service["ports"][0] for service in GATEWAYS.values()}) == 2


def test_every_host_that_is_named_is_a_service() -> None:
    for service in COMPOSE.values():
        assert set(service.get("depends_on", ())) <= set(COMPOSE)
    for upstream in COMPOSED.upstreams:
        assert urlsplit(upstream.url).hostname in COMPOSE
    assert shared(COMPOSED)[0] in COMPOSE


def test_the_scripted_upstream_is_the_one_in_the_file() -> None:
    command = COMPOSE["stub"]["command"]
    accepted(command)
    (upstream,) = COMPOSED.upstreams
    assert str(urlsplit(upstream.url).port) == command[command.index("--port") + 1]
    assert str(upstream.slots) == command[command.index("--slots") + 1]


def test_the_balancer_knows_both_and_asks_whether_they_are_ready() -> None:
    caddy = (DEPLOY / "compose/Caddyfile").read_text()
    (balanced,) = re.findall(r"reverse_proxy (.*) \{", caddy)
    assert balanced.split() == [f"{name}:{COMPOSED.server.port}" for name in GATEWAYS]
    assert "health_uri /readyz" in caddy
    assert not [line for line in caddy.splitlines() if line.strip().startswith("flush_interval")]
    (port,) = COMPOSE["balancer"]["ports"]
    assert f"\n:{port.rpartition(':')[2]} {{" in caddy


# ---- Kubernetes ------------------------------------------------------------------------------------------------------

OBJECTS: dict[tuple[str, str], Any] = {
    (each["kind"], each["metadata"]["name"]): each
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for each in yaml.safe_load_all(file.read_text())
}
DEPLOYMENT = OBJECTS["Deployment", "slotline"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
KUBE = load(OBJECTS["ConfigMap", "slotline"]["data"]["slotline.toml"], source="deploy/kubernetes/slotline.yaml")


def labels(deployment: Mapping[str, Any]) -> Any:
    return deployment["spec"]["template"]["metadata"]["labels"]


def test_the_gateway_finds_its_file_its_secret_and_its_line() -> None:
    accepted(CONTAINER["args"])
    (mount,) = CONTAINER["volumeMounts"]
    assert CONTAINER["args"][-1] == f"{mount['mountPath']}/slotline.toml"
    (volume,) = POD["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": "slotline"}}
    assert KUBE.cluster is not None
    (variable,) = CONTAINER["env"]
    assert variable["name"] == KUBE.cluster.password_env
    (server,) = OBJECTS["Deployment", "slotline-redis"]["spec"]["template"]["spec"]["containers"]
    assert variable["valueFrom"] == server["env"][0]["valueFrom"]
    assert server["args"][-2:] == ["--requirepass", f"$({server['env'][0]['name']})"]
    host, port = shared(KUBE)
    assert OBJECTS["Service", host]["spec"]["ports"][0]["port"] == port == server["ports"][0]["containerPort"]


@pytest.mark.parametrize("name", ["slotline", "slotline-redis"])
def test_whoever_selects_pods_finds_them(name: str) -> None:
    deployment = OBJECTS["Deployment", name]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels(deployment)
    service = OBJECTS["Service", name]["spec"]
    assert service["selector"] == labels(deployment)
    assert service["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}


def test_disruptions_and_neighbours_are_bounded() -> None:
    budget = OBJECTS["PodDisruptionBudget", "slotline"]["spec"]
    assert budget["selector"]["matchLabels"] == labels(DEPLOYMENT)
    assert 0 < budget["minAvailable"] < DEPLOYMENT["spec"]["replicas"]
    policy = OBJECTS["NetworkPolicy", "slotline-redis"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels(OBJECTS["Deployment", "slotline-redis"])
    assert policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"] == labels(DEPLOYMENT)
    assert OBJECTS["Deployment", "slotline-redis"]["spec"]["strategy"] == {"type": "Recreate"}


def test_a_pod_has_time_to_drain_and_room_for_those_who_wait() -> None:
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == KUBE.server.port
    command = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    assert POD["terminationGracePeriodSeconds"] >= int(command[1]) + KUBE.server.drain + 10
    memory = re.fullmatch(r"(\d+)Gi", CONTAINER["resources"]["limits"]["memory"])
    assert memory is not None
    assert int(memory[1]) << 30 > KUBE.server.max_waiting
    (user,) = instruction("USER")
    assert POD["securityContext"]["runAsUser"] == int(user)
    assert CONTAINER["image"] == f"slotline:{PROJECT['version']}"


async def test_probes_ask_what_the_gateway_answers() -> None:
    probes = [CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} == {"http"}
    annotations = DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(KUBE.server.port)
    paths = {*(probe["path"] for probe in probes), annotations["prometheus.io/path"]}
    assert paths == {"/healthz", "/readyz", "/metrics"}
    async with fronted() as front:
        for path in paths:
            assert (await front.get(path)).status == 200
