"""Telling dead processes from living ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from adaexplore_controller.store import LeaseHolder
from adaexplore_controller.store.leases import is_alive


def test_this_process_is_alive() -> None:
    assert is_alive(LeaseHolder.this_process("me")) is True


def test_a_process_that_has_ended_is_dead() -> None:
    code = "from adaexplore_controller.store import LeaseHolder; print(LeaseHolder.this_process('x').process)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    holder = replace(LeaseHolder.this_process("x"), process=process.stdout.strip())
    assert is_alive(holder) is False


def test_another_process_with_the_same_number_is_not_the_holder() -> None:
    holder = LeaseHolder.this_process("me")
    pid = holder.process.partition("/")[0]
    assert is_alive(replace(holder, process=f"{pid}/1")) is False


def test_a_process_of_another_host_is_alive() -> None:
    assert is_alive(LeaseHolder("other", "elsewhere", "1/1")) is None
    assert is_alive(LeaseHolder("other")) is None
