"""The Kubernetes manifests: they render, they are valid, and they say what the code reads."""

import copy
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from deployment import MANIFESTS, SERVICES, config_class, dockerfile_environment, load_settings

from adaexplore.runtime.store_config import StoreConfig

VERSIONS = [f"1.{minor}" for minor in range(30, 38)]
ROOTS = ("base", "overlays/local", "overlays/production")
COMPONENTS = {"lower": "process-isolation", "apart": "peer-tokens"}  # each over production, by the name that it has here
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
OWN_SETTINGS_PORTS = ("listen", "probe_listen")
SECRETS_ELSEWHERE = {  # of production: docs/kubernetes.md lists them
    **{f"{name}-tls": {"ca.crt", "tls.crt", "tls.key"} for name in SERVICES},
    **{f"{name}-tokens": {"tokens"} for name in SERVICES},
    **{f"{name}-database": {"url"} for name in ("generator", "memory", "controller")},
    "controller-peer-token": {"token"},
    "generator-provider": {"openai-api-key"},
}


def _kubectl():
    return shutil.which("kubectl") or shutil.which("kubectl", path=str(Path(sys.prefix) / "bin"))


def _render(folder):
    command = [_kubectl(), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    if not _kubectl():
        assert os.environ.get("ADAEXPLORE_REQUIRE_KUBECTL") != "1", "kubectl is asked for and not here; make kubectl brings it"
        pytest.skip("kubectl is not installed; make kubectl brings it")
    deploy = tmp_path_factory.mktemp("deploy") / "deploy"
    shutil.copytree(MANIFESTS.parent, deploy, ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([deploy / "secrets.sh"], check=True, capture_output=True, timeout=60)
    places = {name: deploy / "kustomize" / name for name in ROOTS}
    for name, component in COMPONENTS.items():
        places[name] = deploy / "kustomize" / name
        places[name].mkdir()
        (places[name] / "kustomization.yaml").write_text(f"resources: [../overlays/production]\ncomponents: [../components/{component}]\n")
    return {name: _render(place) for name, place in places.items()}


def _objects(rendered, root, kind):
    return {item["metadata"]["name"]: item for item in rendered[root] if item["kind"] == kind}


def _pods(rendered, root):
    """(name of the workload, component, pod spec) of what runs our images."""
    for item in rendered[root]:
        if item["kind"] in ("Deployment", "Job"):
            template = item["spec"]["template"]
            yield item["metadata"]["name"], template["metadata"]["labels"]["app.kubernetes.io/component"], template["spec"]


def _servers(rendered, root):
    for name, component, pod in _pods(rendered, root):
        if component in SERVICES:
            yield name, component, pod, pod["containers"][0]


def _environment(rendered, root, container):
    """Variables by name; what comes from a secret is None."""
    found = {}
    for source in container.get("envFrom", []):
        found |= _objects(rendered, root, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    return found | {item["name"]: item.get("value") for item in container.get("env", [])}


@pytest.fixture
def _schemas_read_once(monkeypatch):
    """The library parses megabytes of definitions anew for each object."""
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", functools.cache(kubernetes_validate.utils.schema_contents))


@pytest.mark.usefixtures("_schemas_read_once")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_in_every_supported_version_of_kubernetes(rendered, version):
    for root in rendered:
        for item in rendered[root]:
            kubernetes_validate.validate(item, version, strict=True)


def test_the_validation_refuses_what_is_wrong(rendered):
    wrong = copy.deepcopy(_objects(rendered, "base", "Deployment")["memory"])
    wrong["spec"]["template"]["spec"]["hostUser"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


@pytest.mark.parametrize("root", [*ROOTS, *COMPONENTS])
def test_every_variable_is_a_setting_that_the_code_reads(rendered, root):
    for name, component, _, container in _servers(rendered, root):
        names = {f"ADAEXPLORE_{component.upper()}_{field.upper()}" for field in config_class(component).model_fields}
        given = _environment(rendered, root, container)
        assert not [variable for variable in given if variable not in names], name


@pytest.mark.parametrize("root", [*ROOTS, *COMPONENTS])
def test_the_code_accepts_the_settings(rendered, root, tmp_path):
    for name, component, _, container in _servers(rendered, root):
        environment = {key: value for key, value in _environment(rendered, root, container).items() if value is not None}
        config = load_settings(component, environment, tmp_path / root / name)
        assert config.insecure_listen == "no"


@pytest.mark.parametrize("root", ROOTS)
def test_ports_and_probes_are_those_that_the_settings_open(rendered, root):
    services = _objects(rendered, root, "Service")
    for name, component, _, container in _servers(rendered, root):
        given = _environment(rendered, root, container)
        listen, probe = (int(given[f"ADAEXPLORE_{component.upper()}_{item.upper()}"].rpartition(":")[2]) for item in OWN_SETTINGS_PORTS)
        assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"grpc": listen, "probe": probe}
        for kind in PROBES:
            assert container[kind]["grpc"] == {"port": probe}, f"{name}: {kind}"
        assert [(port["port"], port["targetPort"]) for port in services[name]["spec"]["ports"]] == [(listen, "grpc")]
        built_in = dockerfile_environment(component)
        for item in OWN_SETTINGS_PORTS:
            variable = f"ADAEXPLORE_{component.upper()}_{item.upper()}"
            assert given[variable] == built_in[variable]


@pytest.mark.parametrize("root", ROOTS)
def test_a_loaded_node_has_the_time_to_answer_a_probe(rendered, root):
    """Kubernetes waits for one second where nothing is said, which a busy node takes without being ill."""
    workloads = [item for item in rendered[root] if item["kind"] in ("Deployment", "StatefulSet")]
    for item in workloads:
        for container in item["spec"]["template"]["spec"]["containers"]:
            probes = {kind: container[kind] for kind in PROBES if kind in container}
            assert {"readinessProbe", "livenessProbe"} <= set(probes)
            for kind, probe in probes.items():
                assert probe.get("timeoutSeconds", 1) >= (10 if kind == "livenessProbe" else 5), f"{container['name']}: {kind}"
            liveness = probes["livenessProbe"]
            assert liveness["periodSeconds"] >= liveness["timeoutSeconds"], container["name"]
    assert len(workloads) >= 4


@pytest.mark.parametrize("root", ROOTS)
def test_the_controllers_peers_are_services_of_the_deployment(rendered, root):
    services = _objects(rendered, root, "Service")
    (container,) = [container for _, component, _, container in _servers(rendered, root) if component == "controller"]
    given = _environment(rendered, root, container)
    for peer in ("generator", "evaluator", "memory"):
        host, _, port = given[f"ADAEXPLORE_CONTROLLER_{peer.upper()}_ADDRESS"].partition(":")
        assert services[host]["spec"]["selector"]["app.kubernetes.io/component"] == peer
        assert int(port) == services[host]["spec"]["ports"][0]["port"]


@pytest.mark.parametrize("root", ROOTS)
def test_a_pod_has_more_time_to_end_than_its_drain_takes(rendered, root):
    for name, component, pod, container in _servers(rendered, root):
        drain_s = float(_environment(rendered, root, container)[f"ADAEXPLORE_{component.upper()}_DRAIN_S"])
        before_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pod["terminationGracePeriodSeconds"] >= drain_s + before_s + 10, name


def _optional(pod):
    """Secrets that need not be there."""
    return {volume["secret"]["secretName"] for volume in pod["volumes"] if volume.get("secret", {}).get("optional")}


def _referenced(pod):
    return {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}


def _file_of(path, container, pod):
    """Secret and key that a path in a container comes from."""
    mount = next(item for item in container["volumeMounts"] if path.startswith(item["mountPath"] + "/"))
    volume = next(item for item in pod["volumes"] if item["name"] == mount["name"])
    return volume["secret"]["secretName"], path.removeprefix(mount["mountPath"] + "/")


@pytest.mark.parametrize("root", ["overlays/local", "overlays/production", "apart"])
def test_every_secret_that_is_named_exists_with_its_key(rendered, root):
    made = {name: set(item.get("data", {})) for name, item in _objects(rendered, root, "Secret").items()}
    apart = {"controller-peer-token": {"generator", "evaluator", "memory"}} if root == "apart" else {}
    known = made if root.endswith("local") else SECRETS_ELSEWHERE | apart
    assert bool(made) is root.endswith("local"), "production holds no secret"
    for name, _, pod in _pods(rendered, root):
        for container in pod["containers"]:
            for variable, value in _environment(rendered, root, container).items():
                if variable.endswith("_FILE"):
                    secret, key = _file_of(value, container, pod)
                    assert key in (known | SECRETS_ELSEWHERE if secret in _optional(pod) else known)[secret], f"{name}: {variable}"
        assert _referenced(pod) - _optional(pod) <= set(known), name
        assert _optional(pod) <= {"generator-provider"}


@pytest.mark.parametrize("root", ROOTS)
def test_secrets_come_by_reference_only(rendered, root):
    for name, component, pod in _pods(rendered, root):
        for container in pod["containers"]:
            for variable, value in _environment(rendered, root, container).items():
                secret = variable.endswith(("_KEY", "_URL", "_TOKEN"))
                assert not (secret and value), f"{name}: {variable} of {component}"


@pytest.mark.parametrize("root", [*ROOTS, *COMPONENTS])
def test_every_pod_is_hardened(rendered, root):
    for name, component, pod in _pods(rendered, root):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["enableServiceLinks"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        lowered = component == "evaluator" and root != "lower"
        assert pod["securityContext"]["seccompProfile"]["type"] == ("Unconfined" if lowered else "RuntimeDefault"), name
        assert pod.get("hostUsers", True) is not lowered, name
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], name
            assert not context["allowPrivilegeEscalation"], name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert context.get("procMount", "Default") == ("Unmasked" if lowered else "Default"), name
            assert container["resources"]["limits"]["memory"], name


def test_the_evaluator_demands_namespaces_unless_the_lower_level_is_asked_for(rendered):
    for root, level in (("base", "namespaces"), ("overlays/production", "namespaces"), ("lower", "process")):
        for _, component, _, container in _servers(rendered, root):
            if component == "evaluator":
                assert _environment(rendered, root, container)["ADAEXPLORE_EVALUATOR_REQUIRE_SANDBOX"] == level


def test_a_gpu_pod_has_one_gpu_and_its_kind_a_service(rendered):
    pods = {name: container for name, component, _, container in _servers(rendered, "overlays/production") if component == "evaluator"}
    assert list(pods) == ["evaluator-nvidia-h100"]
    assert pods["evaluator-nvidia-h100"]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "evaluator-nvidia-h100" in _objects(rendered, "overlays/production", "Service")


def _egress(policies, labels):
    """Rules of all policies that select a pod."""
    found = []
    for policy in policies.values():
        selector = policy["spec"]["podSelector"]
        fits = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
        fits &= all(labels.get(item["key"]) in item["values"] for item in selector.get("matchExpressions", []))
        if fits and "Egress" in policy["spec"]["policyTypes"]:
            found += policy["spec"].get("egress") or []
    return found


@pytest.mark.parametrize("root", ROOTS)
def test_the_network_is_closed_but_for_what_is_needed(rendered, root):
    policies = _objects(rendered, root, "NetworkPolicy")
    assert policies["default-deny"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    ports = {}
    for item in rendered[root]:
        if item["kind"] in ("Deployment", "Job"):
            labels = item["spec"]["template"]["metadata"]["labels"]
            rules = _egress(policies, labels)
            ports[labels["app.kubernetes.io/component"]] = {port["port"] for rule in rules for port in rule["ports"]}
    assert ports == {
        "generator": {53, 443, 5432},
        "memory": {53, 5432},
        "controller": {53, 5432, 7001, 7002, 7003},
        "migrate": {53, 5432},
        "evaluator": set(),
    }


@pytest.mark.parametrize("root", ROOTS)
def test_the_variables_of_the_migrations_are_settings_that_name_where_the_services_store_is(rendered, root, tmp_path):
    (job,) = _objects(rendered, root, "Job").values()
    pod = job["spec"]["template"]["spec"]
    stored = {component: (pod, container) for _, component, pod, container in _servers(rendered, root) if component != "evaluator"}
    assert {container["name"] for container in pod["containers"]} == set(stored)
    for container in pod["containers"]:
        component = container["name"]
        given = _environment(rendered, root, container)
        settings = load_settings(component, given, tmp_path / component, StoreConfig)
        assert settings.postgres_url()
        serving_pod, serving = stored[component]
        served = {key: value for key, value in _environment(rendered, root, serving).items() if "_DATABASE_" in key or "_STORE_" in key}
        assert given == served, f"{component}: the migration reads another database than the service"
        for variable, path in given.items():
            assert _file_of(path, container, pod) == _file_of(served[variable], serving, serving_pod)


@pytest.mark.parametrize("root", ["overlays/local", "overlays/production"])
def test_a_job_migrates_every_store(rendered, root):
    (job,) = _objects(rendered, root, "Job").values()
    commands = {container["name"]: container["command"] for container in job["spec"]["template"]["spec"]["containers"]}
    assert commands == {name: ["adaexplore", "db", "upgrade", name] for name in ("generator", "memory", "controller")}


def test_no_secret_is_in_the_repository():
    tracked = subprocess.run(["git", "ls-files", "deploy"], cwd=MANIFESTS, capture_output=True, text=True, check=True).stdout
    assert "secrets/" not in tracked
    ignored = subprocess.run(["git", "check-ignore", "overlays/local/secrets/ca.key"], cwd=MANIFESTS, check=False)
    assert ignored.returncode == 0
