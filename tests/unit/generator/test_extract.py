import pytest
from adaexplore_generator.domain import FinishReason, Outcome, Reply, Usage
from adaexplore_generator.extract import extract_code, prose_of, visible_text

GOOD = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def reply(text, finish=FinishReason.STOP, refusal=""):
    return Reply(text, finish, "model", Usage(), refusal)


def extract(text, **options):
    return extract_code(reply(text, **options), ("ModelNew",))


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{GOOD}```",
        f"It fuses all.\n\n```py\n{GOOD}```\nThat is it.",
        f"~~~python\n{GOOD}~~~",
        f"````python\n{GOOD}````",
        f"```python title.py\n{GOOD}```",
        f"```\n{GOOD}```",
        f"1. Code:\n   ```python\n{''.join('   ' + line + chr(10) if line else chr(10) for line in GOOD.splitlines())}   ```",
        f"<think>\n```python\nwrong = 1\n```\n</think>\n```python\n{GOOD}```",
        f"only the end of a thought</think>\n```python\n{GOOD}```",
        f"```python\n{GOOD}",
        GOOD,
    ],
)
def test_code_is_found_however_it_is_wrapped(text):
    found = extract(text)
    assert (found.outcome, found.source) == (Outcome.KERNEL, GOOD)


def test_of_several_blocks_the_last_that_defines_the_entry_point_is_taken():
    first = GOOD.replace("return x", "return 1")
    found = extract(f"```python\n{first}```\nBetter:\n```python\n{GOOD}```\nRun it:\n```python\nprint(ModelNew())\n```")
    assert found.source == GOOD


def test_a_file_that_is_spread_over_blocks_is_joined():
    head, tail = "import torch\n", "class ModelNew(torch.nn.Module):\n    pass\n"
    found = extract(f"```python\n{head}```\nand\n```text\nno code\n```\n```python\n{tail}```\nUse:\n```python\nModelNew()\n```")
    assert (found.outcome, found.source) == (Outcome.KERNEL, f"{head}\n\n{tail}")


def test_code_without_the_entry_point_is_taken_all_the_same_since_the_evaluator_judges_it():
    assert extract("```python\nx = 1\n```").source == "x = 1\n"


def test_blocks_of_other_languages_are_passed_over():
    assert extract("```bash\npip install triton\n```").outcome is Outcome.NO_CODE


def test_words_around_bare_code_are_cut_off():
    found = extract("Here is my kernel, it is fast!\n\n" + GOOD)
    assert (found.outcome, found.source) == (Outcome.KERNEL, GOOD)


@pytest.mark.parametrize(
    ("text", "options", "outcome"),
    [
        ("", {}, Outcome.EMPTY),
        (" \n\t", {}, Outcome.EMPTY),
        ("<think>hm</think>", {}, Outcome.EMPTY),
        ("", {"finish": FinishReason.LENGTH}, Outcome.TRUNCATED),
        ("<think>hm, let me", {"finish": FinishReason.LENGTH}, Outcome.TRUNCATED),
        ("One should fuse.", {}, Outcome.NO_CODE),
        ("One should", {"finish": FinishReason.LENGTH}, Outcome.TRUNCATED),
        ("I'm sorry, but I can't help with that.", {}, Outcome.REFUSED),
        ("", {"refusal": "I will not."}, Outcome.REFUSED),
        ("Some", {"finish": FinishReason.FILTERED}, Outcome.REFUSED),
        ("```python\nclass ModelNew(\n```", {}, Outcome.INVALID_PYTHON),
        ("```python\nx = '\x00'\n```", {}, Outcome.INVALID_PYTHON),
        ("```python\nx = " + "(" * 500 + "\n```", {}, Outcome.INVALID_PYTHON),
        ("```python\nx = " + "-" * 100_000 + "1\n```", {}, Outcome.INVALID_PYTHON),
        ("```python\n" + "#" * (1 << 20) + "\n```", {}, Outcome.INVALID_PYTHON),
        (f"```python\n{GOOD}", {"finish": FinishReason.LENGTH}, Outcome.TRUNCATED),
        (f"```python\n{GOOD}```\nNext, I wou", {"finish": FinishReason.LENGTH}, Outcome.KERNEL),
    ],
)
def test_every_reply_has_a_typed_outcome(text, options, outcome):
    found = extract(text, **options)
    assert found.outcome is outcome
    assert bool(found.message) == (outcome is not Outcome.KERNEL)


def test_code_that_is_not_python_is_kept_with_the_line_of_the_fault():
    found = extract("```python\nimport torch\nclass ModelNew(:\n    pass\n```")
    assert found.source.startswith("import torch")
    assert "line 2" in found.message


def test_an_invalid_escape_in_the_code_is_not_our_warning():
    assert extract("```python\nx = '\\d'\nclass ModelNew: pass\n```").outcome is Outcome.KERNEL


def test_prose_leaves_the_code_out():
    assert prose_of(f"It fuses.\n```python\n{GOOD}```\nDone.") == "It fuses. Done."


def test_thoughts_are_not_visible():
    assert visible_text("<think>a</think>b<thinking>c</thinking>d") == "bd"
