"""Which calls of the controller a channel may repeat by itself."""

from __future__ import annotations

import json
from importlib.resources import files

from adaexplore.controller.v1 import controller_pb2

SERVICE = controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]


def policies() -> dict[str, object]:
    text = files("adaexplore.controller.v1").joinpath("controller_grpc_service_config.json").read_text()
    return {
        name["method"]: entry.get("retryPolicy")
        for entry in json.loads(text)["methodConfig"]
        for name in entry["name"]
        if name["service"] == SERVICE.full_name
    }


def test_every_method_has_its_entry() -> None:
    assert policies().keys() == {method.name for method in SERVICE.methods}


def test_only_what_reads_or_carries_a_request_id_is_repeated_by_the_channel() -> None:
    repeated = {name for name, policy in policies().items() if policy}
    safe = {m.name for m in SERVICE.methods if m.name.startswith(("Get", "List", "Watch")) or "request_id" in m.input_type.fields_by_name}
    assert repeated == safe
    assert repeated.isdisjoint({"PauseSearch", "ResumeSearch", "CancelSearch"})
