import json

import pytest

from adaexplore.cli.output import enum_name, evaluation_json, message_json, print_json, timing_words, verdict_words
from adaexplore.types.v1 import evaluation_pb2, skill_pb2, task_pb2


def test_enum_names_lose_their_prefix_and_unspecified_is_none():
    assert enum_name(task_pb2.DType, task_pb2.D_TYPE_FLOAT32) == "FLOAT32"
    assert enum_name(evaluation_pb2.TimingStatus, evaluation_pb2.TIMING_STATUS_NOT_RUN) == "NOT_RUN"
    assert enum_name(evaluation_pb2.Verdict, 0) is None


def test_sixty_four_bit_integers_are_numbers_at_every_depth():
    skill = skill_pb2.Skill(counters={"shown": 3}, evidence={"failure_count": 2})
    assert message_json(skill) == {"counters": {"shown": 3}, "evidence": {"failure_count": 2}}
    assert message_json(evaluation_pb2.LaunchReport(grid=[4, 5]))["grid"] == [4, 5]


def test_what_does_not_exist_is_null():
    answer = evaluation_json(evaluation_pb2.Evaluation(verdict=evaluation_pb2.VERDICT_PASSED))
    assert (answer["cause"], answer["message"], answer["timing"]["median_us"], answer["timing"]["speedup"]) == (None, None, None, None)


def test_numbers_that_json_lacks_are_null(capsys):
    print_json({"a": [float("nan"), float("inf"), 1.5]})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5]}


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({"status": "TIMING_STATUS_ESTIMATED", "median_us": 3.0, "speedup": 2.0}, "3.0 µs estimated, 2.00× over the best baseline"),
        ({"status": "TIMING_STATUS_INCONCLUSIVE", "explanation": "no launch"}, "timing inconclusive: no launch"),
        ({"status": "TIMING_STATUS_NOT_RUN"}, "timing not run"),
    ],
)
def test_a_latency_in_words_always_says_how_it_was_obtained(timing, words):
    assert timing_words(evaluation_pb2.Timing(**timing)) == words


def test_a_verdict_in_words_names_its_cause():
    evaluation = evaluation_pb2.Evaluation(verdict="VERDICT_FAILED", cause="CAUSE_NUMERIC")
    assert verdict_words(evaluation) == "FAILED (NUMERIC)"
