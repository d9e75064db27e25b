import pytest
from adaexplore_generator.edits import Edit, apply_edits
from adaexplore_generator.edits import parse_edits as read_edits
from hypothesis import given
from hypothesis import strategies as st

SOURCE = """import triton

def kernel(x):
    a = 1
    if x:
        a = 2
    return a


def other(x):
    return x
"""


def parse_edits(reply, source=SOURCE):
    return read_edits(reply, source)


def block(search, replace):
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def edited(*blocks):
    parsed = parse_edits("\n".join(blocks))
    assert not parsed.problem
    return apply_edits(SOURCE, parsed.edits)


def test_an_edit_is_applied_where_its_lines_are():
    assert edited(block("    a = 1", "    a = 7\n    b = 8")).source == SOURCE.replace("    a = 1", "    a = 7\n    b = 8")


def test_several_edits_are_applied_whatever_their_order():
    result = edited(block("    return x", "    return -x"), block("import triton", "import triton\nimport torch"))
    assert result.source == SOURCE.replace("return x", "return -x").replace("import triton", "import triton\nimport torch")


def test_an_edit_may_delete_lines():
    assert edited("<<<<<<< SEARCH\n    a = 1\n=======\n>>>>>>> REPLACE").source == SOURCE.replace("    a = 1\n", "")


def test_text_and_fences_around_the_edits_are_passed_over():
    reply = "First I change a.\n```python\n" + block("    a = 1", "    a = 3") + "```\nDone."
    assert edited(reply).source == SOURCE.replace("a = 1", "a = 3")


def test_windows_line_ends_in_the_reply_do_no_harm():
    assert edited(block("    a = 1", "    a = 3").replace("\n", "\r\n")).source == SOURCE.replace("a = 1", "a = 3")


def test_trailing_whitespace_does_not_matter():
    assert edited(block("    a = 1   \n    if x:\t", "    a = 5\n    if x:")).source == SOURCE.replace("a = 1", "a = 5")


def test_another_indentation_of_the_whole_block_is_taken_over():
    result = edited(block("if x:\n    a = 2", "if not x:\n    a = 9\n    b = 1"))
    assert result.source == SOURCE.replace("    if x:\n        a = 2", "    if not x:\n        a = 9\n        b = 1")


def test_an_exact_place_wins_over_places_with_another_indentation():
    source = "x = 1\nif y:\n    x = 1\n"
    assert apply_edits(source, parse_edits(block("    x = 1", "    x = 2")).edits).source == "x = 1\nif y:\n    x = 2\n"


def test_an_ambiguous_edit_is_never_applied():
    source = "a = 1\nb = 2\na = 1\n"
    result = apply_edits(source, parse_edits(block("a = 1", "a = 3")).edits)
    assert result.source is None
    assert "several places, at lines 1, 3" in result.problems[0]


def test_an_edit_that_is_ambiguous_but_for_its_indentation_is_never_applied():
    source = "if a:\n    x = 1\nif b:\n        x = 1\n"
    result = apply_edits(source, parse_edits(block("x = 1", "x = 2")).edits)
    assert result.source is None
    assert "several places" in result.problems[0]


def test_an_edit_that_matches_nothing_is_reported_with_its_first_line():
    result = edited(block("    a = 99", "    a = 1"))
    assert result.source is None
    assert "'a = 99'" in result.problems[0]


def test_one_edit_that_does_not_fit_keeps_the_others_from_being_applied():
    result = edited(block("    a = 1", "    a = 7"), block("nowhere", "else"))
    assert result.source is None
    assert [problem.split(":")[0] for problem in result.problems] == ["edit 2"]


def test_edits_that_overlap_are_refused():
    result = edited(block("    a = 1\n    if x:", "    pass"), block("    if x:\n        a = 2", "    pass"))
    assert "overlaps" in result.problems[0]


@pytest.mark.parametrize("search", ["", "   ", "\n\n"])
def test_an_edit_without_a_search_part_is_refused(search):
    assert "empty" in edited(block(search, "x")).problems[0]


def test_a_replacement_that_cannot_follow_the_indentation_is_refused():
    result = edited(block("  if x:\n      a = 2", "if x:\n    a = 2"))
    assert result.source is None
    assert "indented less" in result.problems[0]


def test_an_edit_that_is_cut_off_is_a_problem():
    parsed = parse_edits(block("a", "b") + "<<<<<<< SEARCH\nc\n=======\nd")
    assert parsed.edits == (Edit(("a",), ("b",)),)
    assert "edit 2 is not closed" in parsed.problem


def test_an_edit_that_another_one_interrupts_is_a_problem():
    assert "before the next one begins" in parse_edits("<<<<<<< SEARCH\na\n" + block("b", "c")).problem


def test_a_reply_without_edits_has_none():
    assert parse_edits("a <<<<<<< SEARCH inside a line\n=======\n").edits == ()


def test_separators_inside_string_literals_survive():
    source = "a = '\x0c\u2028'\nb = 1\n"
    assert apply_edits(source, (Edit(("b = 1",), ("b = 2",)),)).source == "a = '\x0c\u2028'\nb = 2\n"


LINE = st.text(alphabet="ab =:\t", max_size=6)


def _lines_of(source):
    return None if source is None else [line.rstrip() for line in source.split("\n")]


@given(st.lists(LINE, min_size=1, max_size=8), st.data())
def test_an_applied_edit_changes_exactly_the_lines_it_names(lines, data):
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    replacement = tuple(data.draw(st.lists(LINE, max_size=3)))
    search = tuple(lines[start:end])
    result = apply_edits("\n".join(lines), (Edit(search, replacement),))
    occurrences = [i for i in range(len(lines) - len(search) + 1) if tuple(lines[i : i + len(search)]) == search]
    if search[0].strip() and search[-1].strip() and len(occurrences) == 1:
        # Spaces at the end of a line are nothing that an edit names.
        assert _lines_of(result.source) == _lines_of("\n".join([*lines[:start], *replacement, *lines[end:]]))
    elif len(occurrences) > 1:
        assert result.source is None


def test_new_lines_take_over_the_tabs_of_the_kernel():
    source = "def f(x):\n\tif x:\n\t\ta = 2\n\treturn x\n"
    parsed = parse_edits(block("    if x:\n        a = 2", "    if x:\n        a = 3\n        b = 4"), source)
    assert apply_edits(source, parsed.edits).source == "def f(x):\n\tif x:\n\t\ta = 3\n\t\tb = 4\n\treturn x\n"


def test_what_an_edit_may_have_meant_is_shown_with_the_lines_around_it():
    (misfit,) = edited(block("        a = 3", "        a = 9")).misfits
    assert (misfit.number, misfit.nearest) == (1, ("import triton\n\ndef kernel(x):\n    a = 1\n    if x:\n        a = 2\n    return a\n",))


def test_edits_that_fit_are_told_apart_from_those_that_do_not():
    result = edited(block("    a = 1", "    a = 7"), block("nowhere", "else"))
    assert result.fitting == (Edit(("    a = 1",), ("    a = 7",)),)


def test_a_reply_of_very_many_edits_is_refused_as_a_whole():
    assert "at most 100" in edited(*[block("    a = 1", "    a = 7")] * 101).problems[0]


@pytest.mark.parametrize("text", ["<old>\n" * 20_000, "<<<<<<< SEARCH\n" * 20_000, "```diff\n" * 20_000, "@@ -1\n" * 20_000, " " * 200_000])
def test_a_hostile_reply_is_read_in_one_pass(text):
    assert parse_edits(text).edits == ()
