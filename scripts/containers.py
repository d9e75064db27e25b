"""Runs the overlay `local` as containers of podman, without a cluster: the four services, each in a container of its own, and one search.

Everything comes from the rendered manifests: variables, secrets, users, capabilities, what may be written. Not taken over: limits of
processor and memory, user namespaces (hostUsers) and network policies (the network has no way out at all). PostgreSQL and the migrations
run with `--postgres IMAGE`; `ENGINE=buildah scripts/images.sh postgres` makes one where no registry can be reached.

Run as root; build the images with `ENGINE=buildah make images` and the client with `scripts/clients.sh build node` first. In a virtual
machine podman's defaults may be more than the kernel grants; then --podman "podman --runtime runc" copes with cgroups of both versions at
once, and --run-flags "--ulimit nofile=4096:4096 --ulimit nproc=4096:4096" with limits.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
NETWORK, SUBNET = "adaexplore-try", "10.99.77"
ORDER = ("generator", "memory", "evaluator-cpu", "controller")
ADDRESSES = {name: f"{SUBNET}.{10 + index}" for index, name in enumerate((*ORDER, "postgres"))}
HEALTHY_LIMIT_S = 300


def main(argv: Sequence[str]) -> int:
    """Start the containers, wait for their health, run a client's search, stop them, and return 0 if all went as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="0.1.0", help="tag of the images")
    parser.add_argument("--client", default="node", help="example client that searches; scripts/clients.sh builds it")
    parser.add_argument("--postgres", default="", help="image of PostgreSQL; without it the stores are SQLite and nothing is migrated")
    parser.add_argument("--podman", default="podman", help="command and global flags")
    parser.add_argument("--run-flags", default="", help="further flags of `podman run`")
    parser.add_argument("--task", default=str(ROOT / "examples" / "softmax.py"))
    parser.add_argument("--steps", default="2")
    options = parser.parse_args(argv)
    podman = options.podman.split()
    with tempfile.TemporaryDirectory() as scratch, _network(podman):
        folder = Path(scratch)
        folder.chmod(0o755)
        run = Run(podman, options, folder, _manifests(folder))
        try:
            if options.postgres:
                run.database()
            for name in ORDER:
                run.service(name)
            for name in ORDER:
                _wait_healthy(podman, name)
            _describe(podman)
            code = _search(podman, folder, options)
        finally:
            codes = _stop(podman, run.started[::-1])
    print(f"containers ended with {codes}", flush=True)
    return code or int(any(codes.values()))


def _manifests(folder: Path) -> list[dict[str, Any]]:
    """Render the overlay over secrets made for this run alone."""
    deploy = folder / "deploy"
    shutil.copytree(ROOT / "deploy", deploy, ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([deploy / "secrets.sh"], check=True)
    kubectl = shutil.which("kubectl") or str(Path(sys.prefix) / "bin" / "kubectl")
    rendered = subprocess.run([kubectl, "kustomize", deploy / "kustomize/overlays/local"], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(rendered.stdout))


@contextlib.contextmanager
def _network(podman: list[str]) -> Iterator[None]:
    subprocess.run([*podman, "network", "create", "--internal", "--subnet", f"{SUBNET}.0/24", NETWORK], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*podman, "network", "rm", NETWORK], check=False, capture_output=True)


def _find(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name)


class Run:
    """Starts containers as the manifests describe them."""

    def __init__(self, podman: list[str], options: argparse.Namespace, folder: Path, objects: list[dict[str, Any]]) -> None:
        self._podman, self._options, self._folder, self._objects = podman, options, folder, objects
        self.started: list[str] = []

    def database(self) -> None:
        """Start PostgreSQL and run the migrations."""
        described = _find(self._objects, "StatefulSet", "postgres")["spec"]
        pod = described["template"]["spec"]
        claimed = [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in described["volumeClaimTemplates"]]
        pod["volumes"] = [*pod["volumes"], *claimed]
        self.started.append("postgres")
        self._run("postgres", pod, pod["containers"][0], self._options.postgres, ["-d"])
        _wait_healthy(self._podman, "postgres")
        job = _find(self._objects, "Job", "migrate")["spec"]["template"]["spec"]
        for container in job["containers"]:
            command = json.dumps(container["command"])
            said = self._run(f"migrate-{container['name']}", job, container, self._image(container), ["--rm", "--entrypoint", command])
            print(said, end="", flush=True)

    def service(self, name: str) -> None:
        """Start one service."""
        pod = _find(self._objects, "Deployment", name)["spec"]["template"]["spec"]
        self.started.append(name)
        self._run(name, pod, pod["containers"][0], self._image(pod["containers"][0]), ["-d"])

    def _image(self, container: dict[str, Any]) -> str:
        return f"localhost/{container['image'].partition(':')[0]}:{self._options.tag}"

    def _run(self, name: str, pod: dict[str, Any], container: dict[str, Any], image: str, how: list[str]) -> str:
        flags = ["--name", name, "--network", NETWORK, "--ip", ADDRESSES.get(name, f"{SUBNET}.99"), *self._options.run_flags.split()]
        flags += [flag for other, address in ADDRESSES.items() for flag in ("--add-host", f"{other}:{address}")]
        flags += [flag for key, value in self._variables(container).items() for flag in ("--env", f"{key}={value}")]
        flags += _hardening(pod["securityContext"], container["securityContext"])
        flags += _volumes(name, pod, container, self._objects, self._folder)
        done = subprocess.run([*self._podman, "run", *how, *flags, image], check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name} does not start: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout

    def _variables(self, container: dict[str, Any]) -> dict[str, str]:
        found = {item["name"]: item["value"] for item in container.get("env", []) if "value" in item}
        for source in container.get("envFrom", []):
            found |= _find(self._objects, "ConfigMap", source["configMapRef"]["name"])["data"]
        return {key: value for key, value in found.items() if self._options.postgres or not key.endswith("_DATABASE_URL_FILE")}


def _secret(objects: list[dict[str, Any]], volume: dict[str, Any]) -> dict[str, str]:
    found = [item for item in objects if item["kind"] == "Secret" and item["metadata"]["name"] == volume["secretName"]]
    if not found and volume.get("optional"):
        return {}
    return dict(found[0]["data"])


def _hardening(pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
    flags = ["--user", f"{pod['runAsUser']}:{pod['runAsGroup']}"]
    flags += ["--read-only", "--read-only-tmpfs=false"] if container["readOnlyRootFilesystem"] else []
    flags += [flag for item in container["capabilities"]["drop"] for flag in ("--cap-drop", item.lower())]
    flags += [] if container["allowPrivilegeEscalation"] else ["--security-opt", "no-new-privileges"]
    flags += ["--security-opt", "seccomp=unconfined"] if pod["seccompProfile"]["type"] == "Unconfined" else []
    flags += ["--security-opt", "unmask=ALL"] if container.get("procMount") == "Unmasked" else []
    return flags


def _volumes(name: str, pod: dict[str, Any], container: dict[str, Any], objects: list[dict[str, Any]], folder: Path) -> list[str]:
    flags = []
    volumes = {item["name"]: item for item in pod["volumes"]}
    for mount in container["volumeMounts"]:
        volume, path = volumes[mount["name"]], mount["mountPath"]
        if path == "/dev/shm":  # noqa: S108 - a path of the container
            flags += ["--shm-size", volume["emptyDir"]["sizeLimit"].removesuffix("i").lower()]
            continue
        place = folder / name / mount["name"]
        place.mkdir(parents=True)
        if "emptyDir" in volume:
            os.chown(place, 0, pod["securityContext"]["fsGroup"])
            place.chmod(0o2777)  # as a kubelet does
            flags += ["--volume", f"{place}:{path}:rw"]
            continue
        for key, value in _secret(objects, volume["secret"]).items():
            (place / key).write_bytes(base64.b64decode(value))
            (place / key).chmod(volume["secret"]["defaultMode"])
            os.chown(place / key, 0, pod["securityContext"]["fsGroup"])
        flags += ["--volume", f"{place}:{path}:ro"]
    return flags


def _wait_healthy(podman: list[str], name: str) -> None:
    """Ask with the image's own HEALTHCHECK."""
    started = time.monotonic()
    while subprocess.run([*podman, "healthcheck", "run", name], check=False, capture_output=True).returncode:
        state = subprocess.run([*podman, "inspect", "--format", "{{.State.Status}}", name], check=False, capture_output=True, text=True)
        if state.stdout.strip() != "running" or time.monotonic() - started > HEALTHY_LIMIT_S:
            log = subprocess.run([*podman, "logs", "--tail", "5", name], check=False, capture_output=True, text=True)
            raise SystemExit(f"{name} did not become healthy: {log.stdout}{log.stderr}")
        time.sleep(1)
    print(f"{name} is healthy", flush=True)


def _describe(podman: list[str]) -> None:
    for name in ORDER:
        words = "tr '\\0' ' ' </proc/1/cmdline; id -u; grep CapEff /proc/1/status; wc -l </proc/net/route"
        shown = subprocess.run([*podman, "exec", name, "sh", "-c", words], check=True, capture_output=True, text=True)
        print(f"{name}: process 1: {' | '.join(shown.stdout.split(chr(10)))}", flush=True)


def _search(podman: list[str], folder: Path, options: argparse.Namespace) -> int:
    """Run the client in the controller's network, which nobody outside reaches, by loopback."""
    secrets = folder / "deploy/kustomize/overlays/local/secrets"
    environment = os.environ | {"ADAEXPLORE_CA_FILE": str(secrets / "ca.crt"), "ADAEXPLORE_TOKEN_FILE": str(secrets / "user.token")}
    found = subprocess.run([*podman, "inspect", "--format", "{{.State.Pid}}", "controller"], check=True, capture_output=True, text=True)
    command = ["nsenter", f"--net=/proc/{int(found.stdout)}/ns/net", ROOT / "scripts/clients.sh", "run", options.client]
    command += ["localhost:7004", options.task, options.steps]
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode


def _stop(podman: list[str], names: list[str]) -> dict[str, int]:
    """End the containers by SIGTERM and return their exit codes."""
    codes = {}
    for name in names:
        subprocess.run([*podman, "stop", "-t", "150", name], check=False, capture_output=True)
        found = subprocess.run([*podman, "inspect", "--format", "{{.State.ExitCode}}", name], check=False, capture_output=True, text=True)
        codes[name] = int(found.stdout.strip() or -1)
        subprocess.run([*podman, "rm", "-f", name], check=False, capture_output=True)
    return codes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
