import signal
import threading

import torch
from adaexplore_evaluator.runner.stragglers import Stragglers


def deaf(_hears):
    pass


def test_outputs_that_a_thread_still_writes_have_changed():
    counts, y = iter([1, 2, 2, 1]), torch.zeros(4)
    assert Stragglers(lambda: next(counts), lambda _seconds: y.add_(1.0), deaf).change([y])


def test_threads_that_write_nothing_are_fine_and_waited_for_a_bounded_time():
    counts, waits, y = iter([1] + [2] * 100), [], torch.zeros(4)
    assert not Stragglers(lambda: next(counts), waits.append, deaf).change([y])
    assert 0 < sum(waits) < 1


def test_without_threads_nothing_is_waited_for():
    waits = []
    assert not Stragglers(lambda: 1, waits.append, deaf).change([torch.zeros(4)])
    assert waits == []


def test_a_thread_of_this_process_is_counted():
    stragglers, go, y = Stragglers(listen=deaf), threading.Event(), torch.zeros(4)
    thread = threading.Thread(target=lambda: (go.wait(), y.add_(1.0)))
    thread.start()
    threading.Timer(0.03, go.set).start()
    assert stragglers.change([y])
    thread.join()


def test_a_timer_that_is_still_to_go_off_is_work_to_come():
    stragglers = Stragglers(lambda: 1, listen=deaf)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
    assert stragglers.change([torch.zeros(4)])
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert not stragglers.change([torch.zeros(4)])


def test_threads_that_were_started_stand_among_the_launches():
    hears = []
    stragglers = Stragglers(lambda: 1, listen=hears.append)
    assert stragglers.records() == []
    hears[0]()
    assert [record["name"] for record in stragglers.records()] == ["threading.Thread"]
