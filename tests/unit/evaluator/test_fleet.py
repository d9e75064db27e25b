"""Which runners a fleet keeps warm, with runners that only count."""

import itertools
import types

import pytest
from adaexplore_evaluator.referee.fleet import Fleet
from adaexplore_evaluator.sandbox import Role

NUMBERS = itertools.count()


class Runner:
    def __init__(self, _sandbox, role, _sweep):
        self.role, self.alive, self.pid = role, True, next(NUMBERS)
        Runner.started.append(role)

    def close(self):
        self.alive = False


@pytest.fixture
def started():
    Runner.started = []
    return Runner.started


def fleet(**settings):
    return Fleet(types.SimpleNamespace(), 1, Runner, **settings)


def test_spares_are_started_ahead_and_taken(started):
    kept = fleet()
    kept.warm_up()
    assert len(started) == len(Role) == len(set(started))
    taken = kept.candidate()
    assert (taken.role, len(started)) == (Role.CANDIDATE, len(Role))
    kept.warm_up()
    assert started[len(Role) :] == [Role.CANDIDATE]


def test_references_are_started_ahead_again_once_one_was_missing(started):
    kept = fleet()
    kept.warm_up()
    kept.reference()
    kept.warm_up()
    assert started.count(Role.REFERENCE) == 1, "many a fleet sees one task only"
    kept.reference()
    kept.warm_up()
    assert started.count(Role.REFERENCE) == 3


def test_an_eager_fleet_replaces_what_is_taken_at_once(started):
    kept = fleet(spares={Role.REFERENCE: 2}, eager=True)
    kept.warm_up()
    before = len(started)
    first, second = kept.reference(), kept.reference()
    assert first is not second
    assert started[before:] == [Role.REFERENCE] * 2
    kept.warm_up()
    assert len(started) == before + 2


def test_a_spare_that_has_died_is_not_given_out(started):
    kept = fleet(eager=True)
    kept.warm_up()
    dead = kept._spares[Role.CANDIDATE][0]
    dead.alive = False
    assert kept.candidate() is not dead
