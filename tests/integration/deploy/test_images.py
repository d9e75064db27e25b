"""Dockerfiles and the Compose file: what they say is what the code reads."""

import re

import pytest
import yaml
from deployment import ROOT, SERVICES, config_class, dockerfile, dockerfile_environment, load_settings

from adaexplore.runtime import probe
from adaexplore.runtime.store_config import StoreConfig
from adaexplore.testing.servers import running_fleet


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())


def _words(service, instruction):
    final = dockerfile(service).rpartition("\nFROM ")[2]
    return re.findall(rf"^{instruction} (.*)$", final, re.MULTILINE)


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_runs_its_service_as_a_user_without_privileges(service):
    assert _words(service, "USER") == ["65532:65532"]
    assert _words(service, "ENTRYPOINT") == [f'["python3", "-m", "adaexplore_{service}"]']


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_the_dependencies_of_its_own_service_only(service):
    (extras,) = re.findall(r"'\.\[([a-z,]+)\]'", dockerfile(service))
    assert set(extras.split(",")) == {service} | ({"postgres"} if service != "evaluator" else set())


@pytest.mark.parametrize("service", SERVICES)
def test_the_variables_of_an_image_are_settings_and_its_ports_those_that_they_open(service):
    given = {key: value for key, value in dockerfile_environment(service).items() if key.startswith("ADAEXPLORE_")}
    prefix = f"ADAEXPLORE_{service.upper()}_"
    assert {key.removeprefix(prefix).lower() for key in given} <= set(config_class(service).model_fields)
    ports = [given[f"{prefix}{name}"].rpartition(":")[2] for name in ("LISTEN", "PROBE_LISTEN")]
    assert _words(service, "EXPOSE") == [" ".join(ports)]
    assert f'"adaexplore.runtime.probe", "127.0.0.1:{ports[1]}"' in _words(service, "HEALTHCHECK")[0]


@pytest.mark.parametrize("service", SERVICES)
def test_every_base_is_named_by_tag_and_may_be_pinned_by_digest(service):
    text = dockerfile(service)
    assert re.search(r"^ARG BASE_IMAGE=docker\.io/[a-z/]+:[a-z0-9.-]+$", text, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE_IMAGE}${BASE_DIGEST}"] * 2


@pytest.mark.parametrize("service", SERVICES)
def test_compose_sets_what_the_code_accepts_and_names_secrets_that_it_mounts(service, compose, tmp_path):
    given = compose["services"][service]["environment"]
    config = load_settings(service, given, tmp_path / "files")
    assert config.insecure_listen == "no"
    for variable, value in given.items():
        if variable.endswith("_FILE"):
            assert value.removeprefix("/run/secrets/") in compose["services"][service]["secrets"]


@pytest.mark.parametrize("service", ["generator", "memory", "controller"])
def test_composes_migrations_read_where_the_services_store_is(service, compose, tmp_path):
    migration = compose["services"][f"migrate-{service}"]
    assert load_settings(service, migration["environment"], tmp_path / "files", StoreConfig).postgres_url()
    served = compose["services"][service]["environment"]
    assert migration["environment"] == {key: value for key, value in served.items() if "_DATABASE_" in key or "_STORE_" in key}
    assert migration["entrypoint"] == ["adaexplore", "db", "upgrade", service]


def test_a_loaded_machine_has_the_time_to_answer_a_health_check(compose):
    timeouts = [_words(service, "HEALTHCHECK")[0].partition("--timeout=")[2].partition("s ")[0] for service in SERVICES]
    timeouts += [compose["services"][service]["healthcheck"]["timeout"].removesuffix("s") for service in SERVICES]
    assert min(float(timeout) for timeout in timeouts) > probe.LIMIT_S


def test_compose_mounts_only_secrets_that_the_script_writes(compose):
    script = (ROOT / "deploy" / "secrets.sh").read_text()
    for name, secret in compose["secrets"].items():
        file = secret["file"].rpartition("/")[2]
        assert file in script or "$name" + file[file.index(".") :] in script, name
    for name, service in compose["services"].items():
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name


def test_composes_evaluator_has_no_way_out(compose):
    networks = compose["services"]["evaluator"]["networks"]
    assert networks
    assert all(compose["networks"][name]["internal"] for name in networks)


def test_compose_gives_each_service_longer_than_its_drain(compose):
    for name in SERVICES:
        service = compose["services"][name]
        drain_s = float(service["environment"][f"ADAEXPLORE_{name.upper()}_DRAIN_S"])
        assert float(service["stop_grace_period"].removesuffix("s")) >= drain_s + 10


def test_the_probe_tells_a_healthy_service_from_one_that_is_not_there(tmp_path):
    with running_fleet(tmp_path, ["memory"]) as fleet:
        address = fleet.address("memory")
        assert probe.main([address]) == 0
    assert probe.main([address]) == 1
    assert probe.main([]) == 2
