"""What fails is repeated, and what goes well costs nothing more."""

import pytest
import stamina
from adaexplore_generator.repeating import repeating


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3, cap=True):
        yield


def failing(times, error=OSError):
    """Return a call that fails so often, and the list of its attempts."""
    made = []

    async def call():
        made.append(len(made))
        if len(made) <= times:
            raise error(f"failure {len(made)}")
        return "done"

    return call, made


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_a_call_is_made_until_it_goes_well(failures):
    call, made = failing(failures)
    assert await repeating(call, on=OSError, attempts=5) == "done"
    assert len(made) == failures + 1


async def test_after_the_last_attempt_its_own_failure_is_told():
    call, made = failing(9)
    with pytest.raises(OSError, match="failure 3"):
        await repeating(call, on=OSError, attempts=5)
    assert len(made) == 3


async def test_the_first_attempt_counts_as_one():
    call, made = failing(9)
    with pytest.raises(OSError, match="failure 2"):
        await repeating(call, on=OSError, attempts=2)
    assert len(made) == 2


async def test_what_may_not_be_repeated_is_made_once():
    call, made = failing(9, ValueError)
    with pytest.raises(ValueError, match="failure 1"):
        await repeating(call, on=OSError, attempts=5)
    assert len(made) == 1


async def test_each_failure_is_asked_about_once():
    call, _ = failing(2)
    asked = []

    def on(error):
        asked.append(str(error))
        return True

    await repeating(call, on=on, attempts=5)
    assert asked == ["failure 1", "failure 2"]
