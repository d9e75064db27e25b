"""Builds answers to a request for edits, each with what must come of it, by spoiling right edits in the ways that models do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from benchmarks.edit_material import Answer, Hunk, Kernel, block, blocks, drift, hunks, load_kernels, mapped

_WORD = re.compile(r"\b[a-z]\w{2,}\b")
_PROSE = (
    "I would reduce the number of passes over memory.",
    "- Use fewer registers\n- Keep the loads coalesced",
    "Next, the launch:",
    "The mask stays as it is, since `cols < n_cols` covers the tail.",
    "> note: untested",
)

Build = Callable[[Random, Kernel], Answer | None]


def exact(rng: Random, kernel: Kernel) -> Answer:
    found, truth = hunks(rng, kernel, 3)
    return Answer("exact", blocks(found), kernel, truth)


def drifted_whitespace(rng: Random, kernel: Kernel) -> Answer:
    found, truth = hunks(rng, kernel)
    spoiled = []
    for hunk in found:
        if rng.random() < 0.5:
            drifted = mapped(hunk, lambda line: drift(rng, line))
            spoiled.append(block(_blanks(rng, drifted.search), drifted.replacement))
        else:
            spoiled.append(block([drift(rng, line) for line in _blanks(rng, hunk.search)], hunk.replacement))
    text = "\n".join(spoiled)
    return Answer("drifted whitespace", text.replace("\n", "\r\n") if rng.random() < 0.2 else text, kernel, truth)


def _blanks(rng: Random, lines: list[str]) -> list[str]:
    kept = [line for line in lines if line.strip() or rng.random() < 0.5]
    if rng.random() < 0.3 and len(kept) > 1:
        kept.insert(rng.randrange(1, len(kept)), "")
    return kept


def wrong_indentation(rng: Random, kernel: Kernel) -> Answer:
    found, truth = hunks(rng, kernel)
    return Answer("wrong indentation", blocks([_reindented(rng, hunk) for hunk in found]), kernel, truth)


def _reindented(rng: Random, hunk: Hunk) -> Hunk:
    least = min(len(line) - len(line.lstrip()) for line in [*hunk.search, *hunk.new] if line.strip())
    shift = rng.randint(1, 8)
    every: tuple[Callable[[str], str], ...] = (
        lambda line: " " * shift + line,
        lambda line: line[least:],
        lambda line: re.sub(r"^ +", lambda match: "\t" * (len(match.group()) // 4), line),
        lambda line: re.sub(r"^ +", lambda match: " " * (len(match.group()) // 2), line),
        str.lstrip,
    )
    choice = rng.randrange(len(every) + 1)
    if choice < len(every):
        return mapped(hunk, every[choice])
    if hunk.before:
        return replace(hunk, before=[hunk.before[0].lstrip(), *hunk.before[1:]])
    return replace(hunk, old=[hunk.old[0].lstrip(), *hunk.old[1:]], new=[hunk.new[0].lstrip(), *hunk.new[1:]])


def repeated_block(rng: Random, kernel: Kernel) -> Answer | None:
    """An edit of lines that stand in several places; only an exact line number or a heading says which."""
    lines = kernel.source.split("\n")
    runs = [
        (start, size)
        for size in (1, 2, 3, 4)
        for start in range(len(lines) - size)
        if all(re.match(r"    .{12,}[^:,(]$", line) for line in lines[start : start + size]) and len(_places(lines, start, size)) > 1
    ]
    if not runs:
        return None
    start, size = rng.choice(runs)
    old = lines[start : start + size]
    new = (
        [*old[:-1], re.sub(r"\b(\w+)\b(?=\W*$)", r"\1_2", old[-1])]
        if rng.random() < 0.5
        else [*old, old[0][: -len(old[0].lstrip())] + "tl.debug_barrier()"]
    )
    truth = "\n".join([*lines[:start], *new, *lines[start + size :]])
    choice = rng.randrange(5)
    if choice == 0:
        return Answer("repeated block", block(old, new), kernel, None)
    if choice == 1:
        return Answer("repeated block", block([drift(rng, line) for line in old], new), kernel, None)
    marked = [*("-" + line for line in old), *("+" + line for line in new)]
    if choice == 2:
        exactly = f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@"
        return Answer("repeated block", "\n".join(["```diff", exactly, *marked, "```"]), kernel, truth)
    places = {place + 1 for place in _places(lines, start, size)}
    wrong = rng.choice([number for number in range(1, len(lines)) if number not in places])
    header = f"@@ -{wrong},{len(old)} +{wrong},{len(new)} @@" if choice == 3 else "@@ @@"
    return Answer("repeated block", "\n".join(["```diff", header, *marked, "```"]), kernel, None)


def _places(lines: Sequence[str], start: int, size: int) -> list[int]:
    return _windows(lines, lines[start : start + size])


def _windows(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    return [place for place in range(len(lines) - len(wanted) + 1) if lines[place : place + len(wanted)] == list(wanted)]


def partial_context(rng: Random, kernel: Kernel) -> Answer:
    """Lines between the context and the change are missing, or only a part of a line is given."""
    found, truth = hunks(rng, kernel, 1, (3, 7))
    hunk = found[0]
    before, after = list(hunk.before), list(hunk.after)
    for part, low, high in ((before, 1, len(before) - 2), (after, 1, len(after) - 2)):
        if high >= low and rng.random() < 0.7:
            part.pop(rng.randint(low, high))
    return Answer("partial context", blocks([replace(hunk, before=before, after=after)]), kernel, truth)


def diff_text(rng: Random, found: Sequence[Hunk], spoil: bool = True) -> str:
    """Return a unified diff whose numbers and headers are wrong or missing."""
    style = rng.randrange(6)
    bare = spoil and rng.random() < 0.2
    out = ["--- a/kernel.py", "+++ b/kernel.py"] if style in {0, 1, 4} else []
    for hunk in found:
        at = hunk.start - len(hunk.before) + 1 + (rng.choice([-40, -7, -1, 1, 3, 12, 60]) if spoil else 0)
        counts = (len(hunk.search) + (rng.choice([-3, -1, 0, 2]) if spoil else 0), len(hunk.replacement))
        header = f"@@ -{max(1, at)},{counts[0]} +{max(1, at)},{counts[1]} @@"
        out.append({2: "@@", 3: "@@ ... @@"}.get(style, header))
        context = (lambda line: line) if bare else (lambda line: " " + line)
        out.extend(
            [*map(context, hunk.before), *("-" + line for line in hunk.old), *("+" + line for line in hunk.new), *map(context, hunk.after)]
        )
    text = "\n".join(out)
    return f"Here is the patch.\n\n```{'diff' if style < 4 else ''}\n{text}\n```\nIt saves a pass." if style != 4 else text + "\n"


def wrong_line_numbers(rng: Random, kernel: Kernel) -> Answer:
    found, truth = hunks(rng, kernel, 3, (1, 3))
    if rng.random() < 0.3:
        found = [Hunk(hunk.start, [drift(rng, line) for line in hunk.before], hunk.old, hunk.new, hunk.after) for hunk in found]
    return Answer("diff, wrong numbers", diff_text(rng, found), kernel, truth)


def whole_instead(rng: Random, kernel: Kernel) -> Answer | None:
    """The whole file, or the one function that changes, in place of edits."""
    found, truth = hunks(rng, kernel, 1)
    if rng.random() < 0.4:
        fence = rng.choice(["```python", "```", "```py"])
        return Answer("whole instead of edit", f"The whole file:\n{fence}\n{truth}\n```\n", kernel, truth)
    lines = truth.split("\n")
    tops = [number for number, line in enumerate(lines) if re.match(r"def |class |@", line)]
    tops = [number for number in tops if number == 0 or (not lines[number - 1].startswith("@") and lines[number - 1] != ")")]
    start = max((number for number in tops if number <= found[0].start), default=None)
    if start is None:
        return None
    end = next(
        (number for number in range(start + 1, len(lines)) if re.match(r"def |class |@|\w", lines[number]) and number in tops), len(lines)
    )
    text = "\n".join(lines[start:end]).rstrip()
    if rng.random() < 0.25 and text.startswith("@"):
        bare = text[text.index("\ndef ") + 1 :]
        return Answer("whole instead of edit", f"Only the kernel changes:\n```python\n{bare}\n```", kernel, None)
    if rng.random() < 0.2:
        cut = text.rsplit("\n", 2)[0]
        return Answer("whole instead of edit", f"Only this changes:\n```python\n{cut}\n", kernel, None)
    return Answer("whole instead of edit", f"Only this changes:\n```python\n{text}\n```", kernel, truth)


def elided_lines(rng: Random, kernel: Kernel) -> Answer:
    """Lines left out with a mark: in both parts alike, or in one only."""
    mark = rng.choice(["...", "    ...", "# ... existing code ...", "        # ... rest unchanged ...", "    # (unchanged)"])
    found, truth = hunks(rng, kernel, 1, (4, 7))
    hunk = found[0]
    choice = rng.randrange(6)
    if choice < 3 and len(hunk.before) > 2:
        hunk = replace(hunk, before=[hunk.before[0], mark, *hunk.before[-1:]] if choice else [mark, *hunk.before[-2:]])
        return Answer("elided lines", block(hunk.search, hunk.replacement), kernel, truth)
    if choice == 3:
        shown = [*hunk.new, mark]
        return Answer("elided lines", block(hunk.search, shown), kernel, None)
    if choice == 4:
        lines = truth.split("\n")
        kept = [*lines[: hunk.start + len(hunk.new)], mark, *lines[-4:]]
        return Answer("elided lines", "```python\n" + "\n".join(kept) + "\n```", kernel, None)
    search = [*hunk.search[:1], mark, *hunk.search[-1:]]
    return Answer("elided lines", block(search, hunk.replacement), kernel, None)


def renamed_variable(rng: Random, kernel: Kernel) -> Answer | None:
    """A name of the context is another in the answer; where the change itself uses it, nothing may be applied."""
    found, truth = hunks(rng, kernel, 1, (2, 5))
    hunk = found[0]
    around = "\n".join([*hunk.before, *hunk.after])
    own = sorted(set(_WORD.findall(around)) - {"for", "range", "def", "return", "self", "else", "import", "class", "tl", "torch", "triton"})
    own = [name for name in own if not re.search(rf"\.{name}\b|\b{name}=", around)]
    if not own:
        return None
    name = rng.choice(own)
    others = sorted(set(_WORD.findall(kernel.source)) - set(_WORD.findall("\n".join([*hunk.search, *hunk.new]))))
    other = rng.choice([name + "s", name[:3] + "_ptrs", "tmp", rng.choice(others)])

    def rename(line: str) -> str:
        return re.sub(rf"\b{name}\b", other, line)

    used = re.search(rf"\b{name}\b", "\n".join(set(hunk.old) ^ set(hunk.new))) is not None
    return Answer("renamed variable", blocks([mapped(hunk, rename)]), kernel, None if used else truth)


def stale_context(rng: Random, kernel: Kernel) -> Answer | None:
    """Lines around the change, or the changed lines themselves, are those of an older version."""
    found, truth = hunks(rng, kernel, 1, (3, 6))
    hunk = found[0]
    choice = rng.randrange(4)
    if choice == 0:
        old = [re.sub(r"\b\d+\b|\bmask=\w+|\bx\b", "16", line, count=1) for line in hunk.old]
        if [line.split() for line in old] == [line.split() for line in hunk.old]:
            return None
        return Answer("stale context", blocks([replace(hunk, old=old)]), kernel, None)
    part = list(hunk.before) if choice < 3 else list(hunk.after)
    if len(part) < 2:
        return None
    at = rng.randrange(len(part))
    part[at : at + rng.randint(0, 1)] = [
        part[at][: len(part[at]) - len(part[at].lstrip())]
        + rng.choice(["tl.static_assert(BLOCK > 0)", "rows = rows + 0", "tl.device_print('x')"])
    ]
    return Answer("stale context", blocks([replace(hunk, before=part) if choice < 3 else replace(hunk, after=part)]), kernel, truth)


def truncated(rng: Random, kernel: Kernel) -> Answer:
    """The reply ends inside an edit, or is said to have been cut."""
    found, _ = hunks(rng, kernel, 3)
    choice = rng.randrange(4)
    if choice == 0:
        text = blocks(found)
        return Answer("truncated", text[: text.rindex(">>>>>>>") - rng.randint(1, 30)], kernel, None)
    if choice == 1:
        return Answer("truncated", blocks(found) + "\n\nNext, the lau", kernel, None, cut=True)
    if choice == 2:
        text = "```diff\n" + "\n".join(
            [
                "@@ @@",
                *(" " + line for line in found[-1].before),
                *("-" + line for line in found[-1].old),
                *("+" + line for line in found[-1].new),
            ]
        )
        return Answer("truncated", text[: len(text) - rng.randint(1, 10)], kernel, None)
    text = "```python\n" + kernel.source
    return Answer("truncated", text[: rng.randint(len(text) // 2, len(text) - 40)], kernel, None, cut=rng.random() < 0.5)


def twin_context(rng: Random, kernel: Kernel) -> Answer | None:
    """A line that stands in several places, between lines of one of these places and some of another: what most of them say decides."""
    lines = kernel.source.split("\n")
    starts = [
        (start, other)
        for start, line in enumerate(lines)
        if re.match(r"    .{12,}[^:,(]$", line)
        for other in _places(lines, start, 1)
        if abs(other - start) > 4 and min(start, other) > 3 and max(start, other) < len(lines) - 4
    ]
    if not starts:
        return None
    start, other = rng.choice(starts)
    offsets = [*range(-rng.randint(1, 3), 0), *range(1, rng.randint(2, 4))]
    shown = {offset: lines[(start if rng.random() < 0.6 else other) + offset] for offset in offsets}
    old, pad = lines[start], lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    new = rng.choice([[old, pad + "tl.debug_barrier()"], [re.sub(r"\b([a-z]\w*)", r"\1_2", old, count=1)]])
    hunk = Hunk(start, [shown[at] for at in offsets if at < 0], [old], new, [shown[at] for at in offsets if at > 0])
    exactly = _windows(lines, hunk.search)
    place = exactly[0] + len(hunk.before) if len(exactly) == 1 else _meant(lines, start, [line for line in shown.values() if line.strip()])
    truth = None if place is None else "\n".join([*lines[:place], *new, *lines[place + 1 :]])
    return Answer("twin context", blocks([hunk]), kernel, truth)


def _meant(lines: Sequence[str], start: int, shown: Sequence[str]) -> int | None:
    """Return the one place near which more of the shown lines stand than near any other."""
    counts = sorted((sum(line in lines[place - 4 : place + 5] for line in shown), place) for place in _places(lines, start, 1))
    return counts[-1][1] if counts[-1][0] > counts[-2][0] else None


def several_faults(rng: Random, kernel: Kernel) -> Answer | None:
    """Drifted spacing, another indentation, an older line in the context and a diff without right numbers, two or three at once."""
    found, truth = hunks(rng, kernel, 2, (2, 5))
    faults = rng.sample(["drift", "indent", "stale", "diff", "drop"], rng.randint(2, 3))
    spoiled = []
    for hunk in found:
        one = hunk
        if "drift" in faults:
            one = mapped(one, lambda line: drift(rng, line))
        if "stale" in faults and len(one.before) > 1:
            at = rng.randrange(len(one.before))
            one = replace(one, before=[*one.before[:at], re.sub(r"\b\d+\b|\bmask\b", "7", one.before[at]), *one.before[at + 1 :]])
        if "drop" in faults and len(one.after) > 2:
            one = replace(one, after=[one.after[0], *one.after[2:]])
        if "indent" in faults:
            one = _reindented(rng, one)
        spoiled.append(one)
    text = diff_text(rng, spoiled) if "diff" in faults else blocks(spoiled)
    return Answer("several faults", text, kernel, truth)


def prose_between(rng: Random, kernel: Kernel) -> Answer:
    found, truth = hunks(rng, kernel, 3)
    parts = [rng.choice(_PROSE)]
    for hunk in found:
        text = block(hunk.search, hunk.replacement)
        parts.append(
            rng.choice([text, f"```python\n{text}\n```", f"kernel.py\n```\n{text}\n```", f"**kernel.py**\n{text}", f"```diff\n{text}\n```"])
        )
        parts.append(rng.choice(_PROSE))
    return Answer("prose and fences", "\n".join(parts), kernel, truth)


def wrong_markers(rng: Random, kernel: Kernel) -> Answer:
    found, truth = hunks(rng, kernel)
    style = rng.randrange(6)
    if style == 0:
        begin, divide, end = "<<<<<< SEARCH", "======", ">>>>>> REPLACE"
    elif style == 1:
        begin, divide, end = "<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED"
    elif style == 2:
        begin, divide, end = "<<<<<<< SEARCH kernel.py", "=======", ">>>>>>> REPLACE kernel.py"
    elif style == 3:
        begin, divide, end = "<<<<<<<< HEAD", "========", ">>>>>>>> new"
    elif style == 4:
        begin, divide, end = "<old>", "</old>\n<new>", "</new>"
    else:
        begin, divide, end = "<<<<<<< SEARCH\n```python", "```\n=======\n```python", "```\n>>>>>>> REPLACE"
    return Answer("wrong markers", "\n".join(block(hunk.search, hunk.replacement, begin, divide, end) for hunk in found), kernel, truth)


BUILDERS: tuple[Build, ...] = (
    exact,
    drifted_whitespace,
    wrong_indentation,
    repeated_block,
    partial_context,
    wrong_line_numbers,
    whole_instead,
    elided_lines,
    renamed_variable,
    stale_context,
    truncated,
    twin_context,
    several_faults,
    prose_between,
    wrong_markers,
)


def build(seed: int, count: int) -> list[Answer]:
    """Return answers of all kinds, the same for the same seed."""
    rng, kernels = Random(seed), load_kernels()
    answers: list[Answer] = []
    while len(answers) < count:
        answer = BUILDERS[len(answers) % len(BUILDERS)](rng, rng.choice(kernels))
        if answer is not None:
            answers.append(answer)
    return answers
