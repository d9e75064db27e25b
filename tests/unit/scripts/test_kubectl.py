"""What a package brings that is not the one that was chosen is never run."""

import hashlib
import io
import runpy
import tarfile
import zipfile
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "kubectl.py"))


def _wheel(program):
    """A wheel of the same form with another program inside."""
    layer, bundle, wheel = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as inner:
        inner.writestr("kubectl/kubectl", program)
    with tarfile.open(fileobj=bundle, mode="w:gz") as middle:
        described = tarfile.TarInfo("package/layer.zip")
        described.size = len(layer.getvalue())
        middle.addfile(described, io.BytesIO(layer.getvalue()))
    with zipfile.ZipFile(wheel, "w") as outer:
        outer.writestr("package.tgz", bundle.getvalue())
    return wheel.getvalue()


def test_a_package_of_another_hash_is_refused():
    with pytest.raises(SystemExit, match=r"is not what it was: its SHA-256 is [0-9a-f]{64}, not"):
        SCRIPT["unpack"](_wheel(b"#!/bin/sh\n"))


def test_the_program_of_the_known_package_is_unpacked(monkeypatch):
    wheel = _wheel(b"#!/bin/sh\n")
    monkeypatch.setitem(SCRIPT["unpack"].__globals__, "_SHA256", hashlib.sha256(wheel).hexdigest())
    assert SCRIPT["unpack"](wheel) == b"#!/bin/sh\n"
