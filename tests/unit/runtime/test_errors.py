import grpc
import pytest
from google.rpc import code_pb2

from adaexplore.runtime import errors
from adaexplore.runtime.errors import FieldViolation, InvalidArgumentError, ServiceError, UnavailableError


def test_a_status_carries_reason_domain_fields_resource_and_delay():
    error = InvalidArgumentError(
        "send a source",
        reason="ERROR_REASON_SOURCE_EMPTY",
        metadata={"limit": "1"},
        violations=[FieldViolation("task.source", "is empty")],
        resource="tasks/a",
        retry_after_s=1.5,
    )
    status = error.to_status("evaluator.adaexplore")
    assert status.code == code_pb2.INVALID_ARGUMENT
    assert len(status.details) == 4
    found = InvalidArgumentError(status.message)
    for detail in status.details:
        errors._unpack_into(found, detail)
    assert (found.reason, found.domain, found.metadata) == ("SOURCE_EMPTY", "evaluator.adaexplore", {"limit": "1"})
    assert found.violations == (FieldViolation("task.source", "is empty"),)
    assert (found.resource, found.retry_after_s) == ("tasks/a", 1.5)


@pytest.mark.parametrize("kind", ServiceError.__subclasses__())
def test_every_error_class_has_a_status_code_of_its_own(kind):
    same = [other for other in ServiceError.__subclasses__() if other.code is kind.code]
    assert same == [kind]


class _Broken(grpc.RpcError):
    def code(self):
        return grpc.StatusCode.UNAVAILABLE

    def details(self):
        return "connection refused"


def test_a_call_that_never_arrived_names_the_peer():
    found = errors.from_rpc_error(_Broken(), "memory at 127.0.0.1:1")
    assert isinstance(found, UnavailableError)
    assert found.message == "memory at 127.0.0.1:1: connection refused"
