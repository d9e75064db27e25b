import pytest
from adaexplore_evaluator.runner.virtual_streams import Timeline


@pytest.fixture
def api():
    timeline = Timeline()
    names = type(
        "cuda", (), {name: staticmethod(value) if not isinstance(value, type) else value for name, value in timeline.names().items()}
    )
    return timeline, names


def work(cuda, stream):
    with cuda.stream(stream):
        assert cuda.current_stream() is stream
    assert cuda.current_stream() is cuda.default_stream()


def wait_for_the_stream(cuda, side):
    cuda.current_stream().wait_stream(side)


def wait_for_an_event(cuda, side):
    event = cuda.Event(enable_timing=True)
    event.record(side)
    cuda.current_stream().wait_event(event)


def wait_by_the_event(_cuda, side):
    side.record_event().wait()


def let_the_host_wait(_cuda, side):
    side.record_event().synchronize()


def let_the_host_wait_for_the_stream(_cuda, side):
    side.synchronize()


def let_the_host_wait_for_all(cuda, _side):
    cuda.synchronize()


def wait_through_another(cuda, side):
    other = cuda.Stream()
    other.wait_stream(side)
    cuda.current_stream().wait_stream(other)


@pytest.mark.parametrize(
    "join",
    [
        wait_for_the_stream,
        wait_for_an_event,
        wait_by_the_event,
        let_the_host_wait,
        let_the_host_wait_for_the_stream,
        let_the_host_wait_for_all,
        wait_through_another,
    ],
)
def test_work_that_somebody_waited_for_is_seen(api, join):
    timeline, cuda = api
    side = cuda.Stream()
    work(cuda, side)
    assert timeline.unseen()
    join(cuda, side)
    assert not timeline.unseen()


def test_work_after_the_wait_is_not_seen(api):
    timeline, cuda = api
    side = cuda.Stream()
    work(cuda, side)
    cuda.current_stream().wait_stream(side)
    with side:
        pass
    assert timeline.unseen()


def test_an_event_recorded_before_the_work_is_not_enough(api):
    timeline, cuda = api
    side = cuda.Stream(priority=-1)
    event = side.record_event()
    work(cuda, side)
    cuda.current_stream().wait_event(event)
    assert timeline.unseen()


def test_a_side_that_waits_for_the_caller_alone_is_not_joined(api):
    timeline, cuda = api
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    work(cuda, side)
    assert timeline.unseen()


def test_a_stream_that_stays_current_is_what_callers_wait_for(api):
    timeline, cuda = api
    cuda.set_stream(cuda.Stream())
    assert not timeline.unseen()


def test_streams_without_work_need_no_wait(api):
    timeline, cuda = api
    cuda.Stream()
    with cuda.stream(None):
        pass
    assert not timeline.unseen()
