"""What tests of the deployment share: the settings classes, and what Dockerfiles and Compose say."""

import datetime
import importlib
import re
from pathlib import Path

import trustme

from adaexplore.runtime.config import load_config

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "deploy" / "kustomize"
SERVICES = ("generator", "evaluator", "memory", "controller")
_CLASSES = {"generator": "GeneratorConfig", "evaluator": "EvaluatorConfig", "memory": "MemoryConfig", "controller": "ControllerConfig"}


def config_class(service):
    """The settings class that the service loads."""
    return getattr(importlib.import_module(f"adaexplore_{service}.config"), _CLASSES[service])


def load_settings(service, environment, folder, kind=None):
    """Load settings as the service does, with files of the kinds that they name put in the places of theirs.

    Another kind of settings than the service's own, for example StoreConfig for its migrations, may be given.
    """
    files = _credentials(folder)
    given = {key: str(files[_kind(key)]) if key.endswith("_FILE") else value for key, value in environment.items()}
    return load_config(kind or config_class(service), f"ADAEXPLORE_{service.upper()}_", [], given)


def _kind(variable):
    return re.search(r"(DATABASE_URL|API_KEY|CA|CERT|KEY|TOKENS|TOKEN)_FILE$", variable).group(1)


def _credentials(folder):
    folder.mkdir(parents=True)
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", not_after=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=60))
    contents = {
        "DATABASE_URL": b"postgresql://someone:secret@postgres:5432/adaexplore\n",
        "CA": authority.cert_pem.bytes(),
        "CERT": b"".join(pem.bytes() for pem in leaf.cert_chain_pems),
        "KEY": leaf.private_key_pem.bytes(),
        "TOKENS": b"controller:sha256:" + b"0" * 64 + b"\n",
        "API_KEY": b"a-key\n",
        "TOKEN": b"0" * 64 + b"\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o440)
    return {name: folder / name for name in contents}


def dockerfile(service):
    """Return the text of a service's Dockerfile with continued lines joined."""
    return re.sub(r"\\\n\s*", " ", (ROOT / "services" / service / "Dockerfile").read_text())


def dockerfile_environment(service):
    """Return the variables that the final stage of a Dockerfile sets."""
    final = dockerfile(service).rpartition("\nFROM ")[2]
    return dict(pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", final, re.MULTILINE) for pair in line.split())
