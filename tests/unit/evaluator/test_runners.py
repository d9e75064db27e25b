import errno
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from adaexplore_evaluator.monitor import KillReason
from adaexplore_evaluator.processes import become_subreaper, running_below
from adaexplore_evaluator.referee.clock import CHECK, PhaseClock
from adaexplore_evaluator.referee.runners import Runner, RunnerEndedError, RunnerForgedError, RunnerKilledError
from adaexplore_evaluator.sandbox import Launch, Limits, Role, SandboxError

# A runner that needs no torch: it runs the code of each command and answers that all is well.
SCRIPT = """
import os, sys
from adaexplore_evaluator.runner.frames import read_frame, write_frame
command_fd, reply_fd, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
while (command := read_frame(command_fd)) is not None:
    exec(command.get("code", ""))
    write_frame(reply_fd, {"id": command["id"], "ok": True})
"""


MARKER = "adaexplore-test-of-runners"


class OneRunner:
    limits = Limits(memory_bytes=512 << 20)

    def __init__(self, folder):
        self.folder = folder

    def start(self, _role):
        for name in ("shared", "source"):
            (self.folder / name).mkdir(parents=True)
        command_in, command_out = os.pipe()
        reply_in, reply_out = os.pipe()
        arguments = [sys.executable, "-c", SCRIPT, str(command_in), str(reply_out), str(self.folder / "shared")]
        environment = os.environ | {"ADAEXPLORE_RUNNER": MARKER}
        process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(command_in, reply_out), env=environment
        )
        os.close(command_in)
        os.close(reply_out)
        return Launch(process, command_out, reply_in, self.folder, self.folder, MARKER)


@pytest.fixture
def runner(tmp_path):
    with Runner(OneRunner(tmp_path / "private"), Role.CANDIDATE, lambda _launch: None) as started:
        yield started


@pytest.fixture
def clock():
    made = PhaseClock({CHECK: 60}, lambda: 0.0, lambda *_: None)
    made.begin(CHECK)
    return made


def refuses(number):
    def encode(_value):
        raise OSError(number, os.strerror(number))

    return SimpleNamespace(encode=encode)


def test_a_folder_in_place_of_a_buffer_is_a_forgery(runner, clock):
    runner.command("run", clock, code="os.mkdir(folder + '/x')")
    with pytest.raises(RunnerForgedError, match="tampered"):
        runner.forget_buffers()


def test_a_shared_folder_that_is_gone_is_a_forgery(runner, clock):
    runner.command("run", clock, code="os.rename(folder, folder + '-moved')")
    for use in (runner.forget_buffers, lambda: runner.encode(torch.ones(2))):
        with pytest.raises(RunnerForgedError, match="tampered"):
            use()


@pytest.mark.parametrize("code", ["os.mkdir(folder + '/c0')", "os.mkfifo(folder + '/c0')", "os.symlink('/etc/passwd', folder + '/c0')", ""])
def test_what_is_no_plain_file_is_not_read(runner, clock, code):
    runner.command("run", clock, code=code)
    with pytest.raises(RunnerForgedError):
        runner.read_file("c0", 100)


def test_a_folder_that_refuses_files_before_any_code_ran_is_ours(runner, clock):
    runner.wait_until_ready(clock)
    runner.buffers = refuses(errno.ENOSPC)
    with pytest.raises(SandboxError, match="No space"):
        runner.encode([])
    assert runner.alive


def test_a_disk_that_is_full_after_code_ran_ends_the_runner_for_want_of_room(runner, clock):
    runner.command("run", clock)
    runner.buffers = refuses(errno.ENOSPC)
    with pytest.raises(RunnerEndedError) as ended:
        runner.encode([])
    assert ended.value.end.killed is KillReason.SCRATCH
    assert not runner.alive


def test_a_runner_that_ended_tells_its_signal(runner, clock):
    with pytest.raises(RunnerEndedError) as ended:
        runner.command("run", clock, code="os.kill(os.getpid(), 11)")
    assert ended.value.end.signal == signal.SIGSEGV


@pytest.mark.parametrize("code", ["os.kill(os.getpid(), 9)", "os._exit(137)"])
def test_a_kill_that_is_not_ours_says_nothing_of_what_ran(runner, clock, code):
    with pytest.raises(RunnerKilledError, match="candidate runner"):
        runner.command("run", clock, code=code)


def test_our_own_kill_is_no_kill_by_the_host(runner, clock):
    runner.kill(KillReason.MEMORY)
    with pytest.raises(RunnerEndedError) as ended:
        runner.command("run", clock)
    assert ended.value.end.killed is KillReason.MEMORY


HOLDS = "held = bytearray(b'x') * (40 << 20)"
# A child ends by itself and never goes on with the loop: a test that is killed must leave no bomb behind.
FORKS = """
import time
for _ in range({count}):
    if os.fork() == 0:
        {deed}
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("count", "deed", "reason"),
    [
        (100, "pass", KillReason.PROCESSES),
        (20, "mine = bytearray(b'x') * (40 << 20)", KillReason.MEMORY),
    ],
)
def test_memory_that_processes_share_is_charged_once_and_their_own_in_full(runner, clock, count, deed, reason):
    with pytest.raises(RunnerEndedError) as ended:
        runner.command("run", clock, code=HOLDS + FORKS.format(count=count, deed=deed))
    assert ended.value.end.killed is reason


def test_processes_below_their_limit_that_share_much_memory_live(runner, clock):
    runner.command("run", clock, code=HOLDS)
    runner.command("run", clock, code=FORKS.format(count=30, deed="pass").replace("\ntime.sleep(60)", "\ntime.sleep(1.0)"))
    assert runner.alive


def test_what_is_printed_since_the_runner_was_ready_is_told(runner, clock):
    runner.command("hello", clock, code="print('imports', flush=True)")
    runner.wait_until_ready(clock)
    runner.command("run", clock, code="print('a warning', file=sys.stderr, flush=True)")
    assert runner.printed == ""
    runner.command("run", clock, code="os.write(1, b'the answer ' * 100_000)")
    assert runner.printed.startswith("the answer the answer")
    assert len(runner.printed) <= 256
    assert "the answer" in runner.log


ORPHAN = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time
        os.close(1); os.close(2)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(("code", "count"), [(ORPHAN, 1), ("os.fork() or os._exit(0)", 0), ("os.system('true')", 0)])
def test_processes_that_are_left_running_are_counted_and_ended_ones_are_not(runner, clock, code, count):
    become_subreaper()
    runner.wait_until_ready(clock)
    own = running_below(os.getpid())
    runner.command("run", clock, code=code)
    assert runner.started_processes() == count
    for pid in running_below(os.getpid()) - own:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_neighbour_that_starts_meanwhile_is_not_counted(runner, clock):
    runner.wait_until_ready(clock)
    runner.command("run", clock)
    neighbour = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert runner.started_processes() == 0
    finally:
        neighbour.kill()
        neighbour.wait()


def test_a_runner_that_ended_unseen_is_not_taken_for_one_that_is_alone(runner, clock):
    runner.wait_until_ready(clock)
    runner.command("run", clock)
    os.kill(runner.pid, signal.SIGSEGV)
    with pytest.raises(RunnerEndedError):
        runner.started_processes()
