"""When the failure of a reproducer speaks for a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from adaexplore_controller.convert import diagnosis_from
from adaexplore_controller.domain import Diagnosis
from adaexplore_controller.proofs import alike

from adaexplore.types.v1 import evaluation_pb2

TANH = "module 'triton.language.math' has no attribute 'tanh'"


def missing(name: str, owner: str = "module 'triton.language.math'") -> Diagnosis:
    return Diagnosis("AttributeError", f"{owner} has no attribute '{name}'")


def said(text: str, exception_type: str = "ValueError") -> Diagnosis:
    return Diagnosis(exception_type, text)


@pytest.mark.parametrize(
    ("candidate", "reproducer"),
    [
        (missing("tanh"), missing("tanh")),
        (replace(missing("$"), said=TANH), replace(missing("tanh"), said=TANH)),
        (missing("func", "'List' object"), missing("func", "'Tuple' object")),
        (said("abs is not defined", "NameError"), said("NameError('abs is not defined')", "builtins.NameError")),
        (said("$ is not defined", "NameError"), said("$ is not defined", "NameError")),
        (said("Unsupported function referenced: <function $ at #>"), said("Unsupported function referenced: <function $ at #>")),
        (said("unsupported AST node type: Break"), said("unsupported AST node type: Break")),
        (said("Both operands must be same dtype. Got fp16 and fp32"), said("Both operands must be same dtype. Got bf16 and fp16")),
        (said("kernel $ needs # bytes of shared memory; sm_90 has #"), said("kernel $ needs # bytes of shared memory; sm_80 has #")),
    ],
)
def test_a_reproducer_that_fails_as_the_candidate_did_is_alike(candidate: Diagnosis, reproducer: Diagnosis) -> None:
    assert alike(candidate, reproducer)


@pytest.mark.parametrize(
    ("candidate", "reproducer"),
    [
        (missing("tanh"), missing("libdevice", "module 'triton.language.extra'")),
        (missing("tanh"), missing("tanh", "module 'triton.language'")),
        (missing("tanh"), missing("tanh", "'tensor' object")),
        (missing("tanh"), said("module 'triton.language.math' has no attribute 'tanh'", "ImportError")),
        (said("abs is not defined", "NameError"), said("x is not defined", "NameError")),
        (said("abs is not defined", "NameError"), said("$ is not defined", "NameError")),
        (said("unsupported AST node type: Break"), said("unsupported AST node type: Lambda")),
        (said("Both operands must be same dtype. Got fp16 and fp32"), said("arange's range must be a power of #")),
        (
            said("cannot import name 'libdevice' from 'triton'", "ImportError"),
            said("cannot import name 'other' from 'triton'", "ImportError"),
        ),
        (Diagnosis(), Diagnosis()),
        (missing("tanh"), Diagnosis()),
    ],
)
def test_a_reproducer_that_fails_otherwise_is_not(candidate: Diagnosis, reproducer: Diagnosis) -> None:
    assert not alike(candidate, reproducer)


def test_a_diagnosis_is_what_a_signature_says_after_phase_cause_and_exception() -> None:
    failure = evaluation_pb2.Failure(exception_type="ValueError", signature="CHECK|RUNTIME|ValueError|a | #", detail="line\na | 7\n")
    assert diagnosis_from(failure) == Diagnosis("ValueError", "a | #", "a | 7")
    assert diagnosis_from(evaluation_pb2.Failure()) == Diagnosis()
