"""What becomes of 300 answers to a request for edits: applied rightly, a typed failure, or applied wrongly, which must never be.

    python -m benchmarks.edit_answers [--seed N] [--count N] [--against naive] [--show]

Each answer is built from a real kernel and a right change to it by one of the ways in which models spoil edits, so that what must come
of it is known; those of `edits_by_hand.py` are added to them. Nothing is asked of a model: an edit that would be repaired by a second
call counts as a failure. `--against naive` prints the share that exact search/replace alone applies, and the ratio.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable

from adaexplore_generator.domain import FinishReason, Outcome, Reply, Usage
from adaexplore_generator.revision import revise

from adaexplore.runtime.sources import kernel_digest
from benchmarks import edits_by_hand
from benchmarks.edit_material import Answer
from benchmarks.edit_mutators import build

RIGHT, FAILED, WRONG = "applied rightly", "typed failure", "applied wrongly"
ENTRY_POINTS = ("ModelNew",)


def ours(answer: Answer) -> str | None:
    """Return the kernel that the generator makes of an answer; None for a failure."""
    reply = Reply(answer.text, FinishReason.LENGTH if answer.cut else FinishReason.STOP, "model", Usage())
    found = revise(reply, answer.kernel.source, ENTRY_POINTS).found
    return found.source if found.outcome is Outcome.KERNEL else None


def naive(answer: Answer) -> str | None:
    """Return what exact search/replace makes of an answer, in the form that was asked for only."""
    source = answer.kernel.source
    pieces = answer.text.split("<<<<<<< SEARCH\n")[1:]
    for piece in pieces:
        search, divided, rest = piece.partition("\n=======\n")
        new, ended, _ = rest.partition("\n>>>>>>> REPLACE")
        if not divided or not ended or source.count(search) != 1:
            return None
        source = source.replace(search, new)
    return source if pieces else None


def verdict(answer: Answer, got: str | None) -> str:
    """Return what a result is worth."""
    if got is None:
        return FAILED
    return RIGHT if answer.truth is not None and kernel_digest(got) == kernel_digest(answer.truth) else WRONG


def table(answers: list[Answer], apply: Callable[[Answer], str | None]) -> dict[str, Counter[str]]:
    """Return for each kind how many answers came to what."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        rows[answer.kind][verdict(answer, apply(answer))] += 1
        rows[answer.kind]["possible"] += answer.truth is not None
    return dict(rows)


def printed(rows: dict[str, Counter[str]]) -> Counter[str]:
    """Print a table and return its sum."""
    total: Counter[str] = sum(rows.values(), Counter())
    print(f"| {'kind':22} | answers | can be applied | {RIGHT} | {FAILED} | {WRONG} |\n|---|---|---|---|---|---|")
    for kind, row in [*rows.items(), ("all", total)]:
        count = row[RIGHT] + row[FAILED] + row[WRONG]
        print(f"| {kind:22} | {count:7} | {row['possible']:14} | {row[RIGHT]:15} | {row[FAILED]:13} | {row[WRONG]:15} |")
    return total


def main() -> int:
    """Print the table; exit 1 if any answer was applied wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--against", choices=["naive"])
    parser.add_argument("--show", action="store_true", help="print the answers that were applied wrongly, or not although they can be")
    options = parser.parse_args()
    answers = [*build(options.seed, options.count), *edits_by_hand.answers()]
    total = printed(table(answers, ours))
    if options.show:
        for number, answer in enumerate(answers):
            came = verdict(answer, ours(answer))
            if came == WRONG or (came == FAILED and answer.truth is not None):
                print(f"\n##### {number} {answer.kind} {answer.kernel.name}: {came}\n{_said(answer)}\n{answer.text}")
    if options.against:
        other = printed(table(answers, naive))
        print(f"applied rightly: {total[RIGHT]} against {other[RIGHT]}, {total[RIGHT] / max(1, other[RIGHT]):.2f} times as many")
    return 1 if total[WRONG] else 0


def _said(answer: Answer) -> str:
    reply = Reply(answer.text, FinishReason.LENGTH if answer.cut else FinishReason.STOP, "model", Usage())
    found = revise(reply, answer.kernel.source, ENTRY_POINTS).found
    return f"{found.outcome.name} {found.message}"


if __name__ == "__main__":
    sys.exit(main())
