import os

import pytest
from adaexplore_evaluator.runner.brake import Brake


class AsleepError(Exception):
    pass


def fall_asleep(_seconds):
    raise AsleepError


@pytest.mark.parametrize("event", ["os.fork", "os.posix_spawn", "subprocess.Popen"])
def test_a_process_that_would_start_one_too_many_falls_asleep(event):
    with pytest.raises(AsleepError):
        Brake(0, fall_asleep).heard(event)


def test_what_starts_no_process_goes_on():
    Brake(0, fall_asleep).heard("open")


def test_few_processes_may_start_more():
    Brake(1 << 20, fall_asleep).heard("os.fork")


def test_processes_of_other_sessions_do_not_count():
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        try:
            Brake(1, fall_asleep).heard("os.fork")
            os.write(write, b"free")
        finally:
            os._exit(0)
    os.close(write)
    os.wait()
    with os.fdopen(read) as pipe:
        assert pipe.read() == "free"


def test_processes_whose_session_is_out_of_sight_do_not_count(monkeypatch):
    monkeypatch.setattr(os, "getsid", lambda _pid: 0)
    Brake(0, fall_asleep).heard("os.fork")
