"""The rule that chooses the judged shape."""

from __future__ import annotations

import ast

import pytest
from adaexplore_evaluator.runner.constants import size_constants, with_constants
from adaexplore_evaluator.runner.judged import Measured, ladder, reduce_shape
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 200_000


def power_of_two_in(value):
    return value & -value


@given(st.integers(5, 2**33))
def test_steps_fall_and_keep_the_divisibility_that_their_size_allows(value):
    steps = ladder(value)
    assert steps == sorted(set(steps), reverse=True)
    assert all(1 < step < value for step in steps)
    for step in steps:
        if step > 64:
            assert step & (step - 1), "a power of two hides missing masks"
            assert power_of_two_in(step) <= power_of_two_in(value)
            assert value % 16 or value <= 64 or step % 16 == 0


def test_multiples_of_a_block_stay_multiples():
    assert [step for step in ladder(8192) if 300 < step < 1600] == [1536, 768, 384]
    assert all(step % 128 == 0 for step in ladder(8192) if step > 300)
    assert ladder(4095)[0] == 3071


def reduced(source, shapes_of, limit=LIMIT, tie_equal=False):
    """Reduce a source whose names, executed, give shapes; None from `shapes_of` means that the task does not run."""
    tree = ast.parse(source)
    constants = size_constants(tree)

    def measure(values):
        namespace = {}
        exec(compile(with_constants(tree, values), "task", "exec"), namespace)
        shapes = shapes_of(namespace)
        return None if shapes is None else Measured(*shapes, operators=("aten.op",))

    values = reduce_shape(constants, measure, limit, tie_equal)
    return {constant.label: values[constant.place] for constant in constants if constant.place in values}


def test_rows_shrink_before_columns():
    found = reduced("rows = 32768\ncolumns = 4096", lambda n: (((n["rows"], n["columns"]),), (), ((n["rows"], n["columns"]),)))
    assert found == {"rows": 48}


def test_a_long_row_shrinks_only_as_far_as_needed():
    found = reduced("rows = 4096\ncolumns = 393216", lambda n: (((n["rows"], n["columns"]),), (), ((n["rows"], n["columns"]),)))
    assert found == {"rows": 16, "columns": 12288}


def test_a_product_shrinks_on_every_side():
    source = "m = 1024\nk = 8192\nn = 4096"
    found = reduced(source, lambda s: (((s["m"], s["k"]),), ((s["n"], s["k"]),), ((s["m"], s["n"]),)))
    assert found == {"m": 96, "k": 384, "n": 192}


def test_sizes_that_are_equal_at_full_shape_stay_equal():
    source = "m = 1024\nk = 8192\nn = 8192"
    found = reduced(source, lambda s: (((s["m"], s["k"]),), ((s["n"], s["k"]),), ((s["m"], s["n"]),)))
    assert found == {"m": 192, "k": 384, "n": 384}


def test_what_is_no_size_and_what_is_small_stays():
    source = "batch = 128\nchannels = 64\nkernel = 3\ngroups = 8\nclamp = 500\nheight = width = 256\neps = 1e-5"

    def shapes(n):
        if n["channels"] % n["groups"]:
            return None
        image = (n["batch"], n["channels"], n["height"], n["width"])
        return (image,), ((n["channels"], n["kernel"]),), (image,)

    found = reduced(source, shapes)
    assert set(found) <= {"batch", "channels", "height"}
    assert found["batch"] == 3
    assert found.get("channels", 64) % 8 == 0


def test_a_small_task_stays_as_it_is():
    assert reduced("rows = 100\ncolumns = 1000", lambda n: (((n["rows"], n["columns"]),), (), ())) == {}


def test_a_task_that_runs_at_no_other_shape_stays_as_it_is():
    assert reduced("rows = 4096\ncolumns = 4096", lambda n: (((n["rows"], 4096),), (), ()) if n["rows"] == 4096 else None) == {}


def test_other_operators_at_another_shape_are_not_accepted():
    tree = ast.parse("rows = 100000\ncolumns = 1000")
    constants = size_constants(tree)
    by_place = {constant.place: constant for constant in constants}

    def measure(values):
        names = {constant.label: values.get(place, constant.value) for place, constant in by_place.items()}
        shape = (names["rows"], names["columns"])
        return Measured((shape,), (), (shape,), ("one",) if names["columns"] == 1000 else ("other",))

    assert {by_place[place].label for place in reduce_shape(constants, measure, LIMIT, False)} == {"rows"}


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        ("N = 2048 * 2", {"N": 4096}),
        ("shape = (32768, 3)", {"shape[0]": 32768}),
        ("depth, height = 24, 48", {"depth": 24, "height": 48}),
        ("height = width = 256", {"height": 256}),
        ("flag = True\nname = 'x'\nratio = 0.5", {}),
        ("def helper():\n    return 4096", {}),
        ("def get_inputs():\n    return [f(64, 128)]", {"get_inputs:2:14": 64, "get_inputs:2:18": 128}),
        ("config = dict(width=512)", {"config": 512}),
    ],
)
def test_constants_are_found_where_sizes_are_written(source, labels):
    assert {constant.label: constant.value for constant in size_constants(ast.parse(source))} == labels


def test_a_literal_is_tied_to_the_name_of_the_same_value():
    source = "features = 4096\ndef get_inputs():\n    return (8192, 4096)"

    def shapes(n):
        rows, columns = n["get_inputs"]()
        return (((rows, columns),), ((n["features"],),), ((rows, columns),)) if columns == n["features"] else None

    found = reduced(source, shapes)
    assert found["features"] == found["get_inputs:3:18"] if "features" in found else found["get_inputs:3:12"] == 48
