import os
import threading

from adaexplore_evaluator.runner.frames import MAX_PAYLOAD_BYTES, read_frame
from adaexplore_evaluator.runner.service import Replies


def test_an_answer_that_no_frame_holds_is_nothing_that_can_be_judged():
    reader, writer = os.pipe()
    replies = Replies(writer)
    replies.begin(7)
    sender = threading.Thread(target=replies.answer, args=({"ok": True, "launches": "x" * MAX_PAYLOAD_BYTES},))
    sender.start()
    found = read_frame(reader)
    sender.join()
    os.close(reader)
    os.close(writer)
    assert (found["id"], found["ok"], found["error"]["kind"]) == (7, False, "not_interpretable")
    assert "too large" in found["error"]["message"]
