"""The ACTIVE skills as far as choosing among them needs it: found by what they speak of, ranked, and kept up to date by what changed.

A memory may hold a hundred thousand skills; reading them all for each generation would take seconds and their reproducers all memory.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from adaexplore_memory.domain import Environment, Pattern, Scope, Selected, Skill, SkillKind
from adaexplore_memory.select import Query, estimate_tokens, in_scope, reach, reason, subjects, suits, worth
from adaexplore_memory.store import Transaction

# A full prompt is not searched for the one sentence that would still fit into it.
_MOST_PASSED_OVER = 200
_MOST_CHOSEN = 500
_CHANGES_A_READ = 500
# With reproducers and repairs these take some 20 MB.
_MOST_KEPT = 2_000
# Worth (negative, so that the best comes first), tokens, name: the order of skills of one relevance.
_Rank = tuple[float, int, str]
_Value = TypeVar("_Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: _Rank
    scope: Scope
    group: str
    about: tuple[str, ...]
    patterns: tuple[Pattern, ...]


@dataclass
class _Shelf:
    """The skills of one scope, ranked: by each function they speak of, and all of them by group."""

    about: dict[str, list[_Rank]] = field(default_factory=lambda: defaultdict(list))
    groups: dict[str, list[_Rank]] = field(default_factory=lambda: defaultdict(list))

    def lists(self, entry: _Entry) -> Iterator[list[_Rank]]:
        yield self.groups[entry.group]
        for name in entry.about:
            yield self.about[name]


class SkillIndex:
    """ACTIVE skills by scope, function and pattern."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._shelves: dict[Scope, _Shelf] = {}
        self._breaking: dict[Pattern, set[str]] = defaultdict(set)
        self._shared: dict[Hashable, Hashable] = {}

    def put(self, name: str, skill: Skill | None) -> None:
        """Note a skill as it is now; None takes it out."""
        self._take_out(self._entries.pop(name, None))
        if skill is None:
            return
        entry = self._entry(skill)
        self._entries[name] = entry
        shelf = self._shelves.setdefault(entry.scope, _Shelf())
        for ranks in shelf.lists(entry):
            insort(ranks, entry.rank)
        for pattern in entry.patterns:
            self._breaking[pattern].add(name)

    def ranked(self, query: Query) -> Iterator[tuple[str, int]]:
        """Yield the names and tokens of skills that hold for a query, the most relevant first, each once."""
        reachable = reach(query.operators)
        streams: list[Iterator[_Rank]] = []
        for scope, shelf in self._shelves.items():
            if not in_scope(scope, query.environment) or not suits(scope, query):
                continue
            streams += [_raised(4.0 - 0.1 * reachable[name][0], shelf.about[name]) for name in reachable if name in shelf.about]
            # A skill on several lists comes first from the list of its greatest relevance.
            for group, ranks in shelf.groups.items():
                families = bool(scope.operator_families and query.operators)
                streams.append(_raised(2.5 if families else _relevance(group, query), ranks))
        seen: set[str] = set()
        for _, tokens, name in heapq.merge(*streams):
            if name not in seen:
                seen.add(name)
                yield name, tokens

    def chosen(self, query: Query) -> list[str]:
        """Return the names of the skills to show, the most relevant first, within the token budget.

        A skill that does not fit is passed over, and a shorter one after it may still be taken, until 200 did not fit. At most 500 are
        chosen.
        """
        names: list[str] = []
        left, passed = query.token_budget, 0
        for name, tokens in self.ranked(query):
            if tokens <= left:
                names.append(name)
                left -= tokens
            else:
                passed += 1
            if left <= 0 or passed >= _MOST_PASSED_OVER or len(names) >= _MOST_CHOSEN:
                break
        return names

    def breaking(self, patterns: Iterable[Pattern], environment: Environment) -> list[str]:
        """Return the names of the skills that have one of the patterns and surely hold here, in order."""
        names = {name for pattern in patterns for name in self._breaking.get(pattern, ())}
        return sorted(name for name in names if in_scope(self._entries[name].scope, environment, certain=True))

    def _entry(self, skill: Skill) -> _Entry:
        about = tuple(sorted(subjects(skill)))
        group = "technique" if skill.kind is SkillKind.TECHNIQUE else "other" if about else "general"
        rank = (-worth(skill), estimate_tokens(skill), skill.name)
        return _Entry(rank, self._same(skill.scope), group, self._same(about), self._same(skill.patterns))

    def _same(self, value: _Value) -> _Value:
        return cast(_Value, self._shared.setdefault(value, value))

    def _take_out(self, entry: _Entry | None) -> None:
        if entry is None:
            return
        for ranks in self._shelves[entry.scope].lists(entry):
            del ranks[bisect_left(ranks, entry.rank)]
        for pattern in entry.patterns:
            self._breaking[pattern].discard(entry.rank[2])


class LiveIndex:
    """An index that reads what changed before it is used, with the skills that were used last."""

    def __init__(self) -> None:
        self._index = SkillIndex()
        self._read_to = 0
        self._reading = asyncio.Lock()
        self._used: OrderedDict[str, Skill] = OrderedDict()

    async def current(self, tx: Transaction) -> SkillIndex:
        """Return the index, at least as new as the transaction."""
        async with self._reading:
            while self._read_to < await tx.last_change():
                for sequence, name, skill in await tx.changes(self._read_to, _CHANGES_A_READ):
                    self._index.put(name, skill)
                    self._used.pop(name, None)
                    self._read_to = sequence
                await asyncio.sleep(0)  # the first time there may be very many, and other calls wait
        return self._index

    async def skills(self, tx: Transaction, names: Sequence[str]) -> list[Skill]:
        """Return the ACTIVE skills of these names, in their order."""
        missing = [name for name in names if name not in self._used]
        found = {skill.name: skill for skill in await tx.active(missing)} if missing else {}
        # A transaction of before the last change may see skills as they were before it.
        if found and await tx.last_change() == self._read_to:
            self._used.update(found)
        for name in names:
            if name in self._used:
                found[name] = self._used[name]
                self._used.move_to_end(name)
        while len(self._used) > _MOST_KEPT:
            self._used.popitem(last=False)
        return [found[name] for name in names if name in found]


def select(skills: Iterable[Skill], query: Query) -> tuple[Selected, ...]:
    """Return those of some skills that are to be shown, as `SkillIndex.chosen` orders them."""
    by_name = {skill.name: skill for skill in skills}
    index = SkillIndex()
    for name, skill in by_name.items():
        index.put(name, skill)
    return explained([by_name[name] for name in index.chosen(query)], query)


def explained(skills: Iterable[Skill], query: Query) -> tuple[Selected, ...]:
    """Return skills with why each is shown and what it takes."""
    reachable = reach(query.operators)
    return tuple(Selected(skill, reason(skill, query, reachable), estimate_tokens(skill)) for skill in skills)


def _relevance(group: str, query: Query) -> float:
    if group == "technique":
        return 2.0 if query.structural else 1.5
    return 1.0 if group == "general" else 0.0


def _raised(relevance: float, ranks: list[_Rank]) -> Iterator[_Rank]:
    return ((-(relevance - less), tokens, name) for less, tokens, name in ranks)
