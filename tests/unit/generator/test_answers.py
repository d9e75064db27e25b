import pytest
from adaexplore_generator.answers import Rule, Verdict, read_rule, read_verdict


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("You cannot use `break` in a kernel.", Rule("You cannot use `break` in a kernel.")),
        ("You cannot use break.\nInstead: use a mask.", Rule("You cannot use break.", "use a mask.")),
        ("You cannot use break. Instead: use a mask.", Rule("You cannot use break.", "use a mask.")),
        ('Rule: here it is\n- "you cannot use tl.foo."', Rule("You cannot use tl.foo.")),
        ("<think>You cannot know.</think>no guidance", Rule()),
        ("no guidance", Rule()),
        ("", Rule()),
        ("Kernels should be fast.", Rule()),
    ],
)
def test_a_rule_is_one_sentence_that_begins_as_asked_or_nothing(reply, rule):
    assert read_rule(reply) == rule


def test_a_rule_is_at_most_500_characters():
    assert len(read_rule("You cannot " + "x" * 2000).rule) == 500


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ('{"duplicate_of": 1, "confidence": 0.9}', Verdict(1, 0.9)),
        ('```json\n{"duplicate_of": null, "confidence": 0.4}\n```', Verdict(None, 0.4)),
        ('I compare {rules}: {"duplicate_of": 0, "confidence": 1}', Verdict(0, 1.0)),
        ('{"duplicate_of": 3, "confidence": 0.9}', Verdict(None, 0.0)),
        ('{"duplicate_of": -1, "confidence": 0.9}', Verdict(None, 0.0)),
        ('{"duplicate_of": true, "confidence": 0.9}', Verdict(None, 0.0)),
        ('{"duplicate_of": "1", "confidence": 0.9}', Verdict(None, 0.0)),
        ('{"duplicate_of": 1, "confidence": 7}', Verdict(1, 0.0)),
        ('{"duplicate_of": 1, "confidence": NaN}', Verdict(1, 0.0)),
        ('{"duplicate_of": 1', Verdict(None, 0.0)),
        ("rule 1 is the same", Verdict(None, 0.0)),
    ],
)
def test_a_judgement_that_cannot_be_read_is_no_duplicate(reply, verdict):
    assert read_verdict(reply, 3) == verdict
