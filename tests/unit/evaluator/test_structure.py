import pytest
from adaexplore_evaluator.referee.structure import (
    coverage_of,
    forbidden,
    kernels_of,
    leaves_gaps,
    parsed_launches,
    signature_of,
    triton_names,
    written_less,
)
from adaexplore_evaluator.referee.values import MalformedReplyError


def operator(name, **fields):
    return {"kind": "operator", "name": name, "bytes_read": 4, "bytes_written": 4, "flops": 1, "count": 1, **fields}


def triton(name, count=1):
    return {"kind": "triton", "name": name, "grid": [4], "count": count, "num_warps": 4}


def launches(*records):
    return parsed_launches({"launches": list(records)})


def test_allocations_and_views_are_no_work():
    found = launches(operator("aten.empty_like.default"), operator("aten.transpose.int"), operator("aten.add.Tensor"), triton("k"))
    assert signature_of(found) == ["aten.add.Tensor", "k"]
    assert triton_names(found) == ["k"]


def test_a_loop_that_turns_more_often_is_the_same_structure():
    assert signature_of(launches(triton("k", 2), triton("k", 3))) == signature_of(launches(triton("k", 9)))
    assert signature_of(launches(triton("k"), triton("other"))) != signature_of(launches(triton("k")))


def test_tracks_forbid_what_they_say():
    found = launches(operator("aten.mm.default"), operator("aten.relu.default"), operator("aten.zeros.default"), triton("k"))
    assert forbidden(found, "any") == []
    assert forbidden(found, "no_vendor_library") == ["aten.mm.default"]
    assert forbidden(found, "triton_only") == ["aten.mm.default", "aten.relu.default"]


@pytest.mark.parametrize("records", [[{"kind": "other"}], [operator("aten.mm.default", flops=-1)], ["text"], "text", None])
def test_launches_of_another_form_are_refused(records):
    with pytest.raises(MalformedReplyError):
        parsed_launches({"launches": records})


def covering(**shares):
    records = [
        {"kernel_name": "k", "line": 3, "argument": name, "coverage": share, "error": error} for name, (share, error) in shares.items()
    ]
    return coverage_of({"launches": [triton("k") | {"line": 3}], "coverage": records})


def test_what_is_written_whole_leaves_no_gaps():
    assert not leaves_gaps(covering(y=(1.0, 0.0), z=(1.2, 0.0)))
    assert leaves_gaps(covering(y=(1.0, 0.0), z=(0.9, 0.0)))
    assert leaves_gaps(covering(y=(1.1, 0.1)))
    assert leaves_gaps(covering())


def test_a_kernel_must_write_at_full_shape_what_it_writes_at_the_judged_one():
    assert written_less(covering(y=(0.36, 0.05)), covering(y=(1.0, 0.0))) == [("k", 3, "y")]
    assert written_less(covering(), covering(y=(1.0, 0.0))) == [("k", 3, "y")]
    assert written_less(covering(y=(0.9, 0.05)), covering(y=(1.0, 0.0))) == []
    assert written_less(covering(), covering()) == []


def test_what_covers_a_part_may_cover_less_where_tiles_are_small_compared_with_the_whole():
    assert written_less(covering(y=(0.5, 0.0)), covering(y=(0.67, 0.0))) == []
    assert written_less(covering(y=(0.2, 0.0)), covering(y=(0.67, 0.0))) == [("k", 3, "y")]


def test_what_could_not_be_sampled_tells_nothing():
    records = [{"kernel_name": "k", "line": 3, "argument": "", "coverage": 0.0, "error": 0.0, "known": False}]
    unknown = coverage_of({"launches": [triton("k") | {"line": 3}], "coverage": records})
    assert not leaves_gaps(unknown)
    assert written_less(unknown, covering(y=(1.0, 0.0))) == []


@pytest.mark.parametrize("record", [{"coverage": "all"}, {"coverage": float("nan"), "error": 0.0, "line": 1}, {"coverage": 1, "error": 0}])
def test_coverage_of_another_form_is_refused(record):
    with pytest.raises(MalformedReplyError):
        coverage_of({"launches": [], "coverage": [record]})


def test_kernels_of_one_name_are_told_apart_by_their_line():
    first, second = ({"launches": [triton("k") | {"line": line, "constexprs": {"B": "64"}}]} for line in (3, 9))
    assert kernels_of(first) == {("k", 3, ("B",))}
    assert kernels_of(first) != kernels_of(second)
