import os

import pytest
from adaexplore_evaluator.runner.brake import Brake


class AsleepError(Exception):
    pass


def fall_asleep(_seconds):
    raise AsleepError


def in_a_session_of_its_own(most, event):
    """What the brake of a process makes of `event` where nothing else is of the process's session."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()  # wherever the tests run, their own session may be one whose leader is out of sight
        try:
            Brake(most, fall_asleep).heard(event)
            os.write(write, b"free")
        except AsleepError:
            os.write(write, b"asleep")
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.parametrize("event", ["os.fork", "os.posix_spawn", "subprocess.Popen"])
def test_a_process_that_would_start_one_too_many_falls_asleep(event):
    assert in_a_session_of_its_own(0, event) == "asleep"


def test_what_starts_no_process_goes_on():
    assert in_a_session_of_its_own(0, "open") == "free"


def test_few_processes_may_start_more():
    assert in_a_session_of_its_own(1 << 20, "os.fork") == "free"


def test_processes_of_other_sessions_do_not_count():
    assert in_a_session_of_its_own(1, "os.fork") == "free"


def test_processes_whose_session_is_out_of_sight_do_not_count(monkeypatch):
    monkeypatch.setattr(os, "getsid", lambda _pid: 0)
    Brake(0, fall_asleep).heard("os.fork")
