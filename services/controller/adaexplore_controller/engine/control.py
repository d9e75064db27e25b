"""What users may do with searches."""

from __future__ import annotations

from collections.abc import Callable

from adaexplore.runtime.errors import FieldViolation, InvalidArgumentError
from adaexplore_controller.domain import Search, SearchEstimate, SearchSpec, SearchState, Wish
from adaexplore_controller.engine.estimator import Estimator
from adaexplore_controller.engine.supervisor import Supervisor
from adaexplore_controller.policies import UnknownPolicyError, create_policy
from adaexplore_controller.store import SearchStore


class Control:
    """Starts, pauses, resumes and cancels searches.

    Args:
        store: Where searches are kept.
        supervisor: Drives them.
        estimator: Says what a search would cost.
        new_id: Returns a fresh id of letters, digits, `-` and `_`.

    """

    def __init__(self, store: SearchStore, supervisor: Supervisor, estimator: Estimator, new_id: Callable[[], str]) -> None:
        self._store, self._supervisor, self._estimator, self._new_id = store, supervisor, estimator, new_id

    async def start(self, spec: SearchSpec, request_id: str) -> Search:
        """Start a search, or return the one that the same request id has started.

        Raises:
            InvalidArgumentError: There is no such policy (POLICY_UNKNOWN).
            FailedPreconditionError: Money is limited and the price of the model is unknown (PRICE_UNKNOWN).
            ServiceError: Money is limited and the generator cannot be asked.

        """
        _check_policy(spec)
        await self._estimator.refuse_unpriced(spec)
        search_id = self._new_id()
        search = await self._store.create(search_id, spec, request_id, self._supervisor.lease())
        if search.id == search_id:
            self._supervisor.drive(search_id)
        return search

    async def estimate(self, spec: SearchSpec) -> SearchEstimate:
        """Say what a search would use and cost, without starting it.

        Raises:
            InvalidArgumentError: There is no such policy (POLICY_UNKNOWN).
            FailedPreconditionError: The task cannot judge candidates (TASK_INVALID).
            ServiceError: Evaluator or generator cannot be asked.

        """
        _check_policy(spec)
        return await self._estimator.estimate(spec)

    async def pause(self, search_id: str) -> Search:
        """Pause a search after the step in flight; FailedPreconditionError (SEARCH_ENDED) if it has ended."""
        return await self._store.wish(search_id, Wish.PAUSE)

    async def resume(self, search_id: str) -> Search:
        """Continue a search that is paused or was interrupted; FailedPreconditionError (SEARCH_ENDED) if it has ended."""
        search, to_drive = await self._store.resume(search_id, self._supervisor.lease())
        if to_drive:
            self._supervisor.drive(search_id)
        return search

    async def cancel(self, search_id: str) -> Search:
        """Cancel a search for good, calls in flight included, and return it as it ended, whichever controller drives it.

        Raises:
            FailedPreconditionError: It has ended otherwise (SEARCH_ENDED).

        """
        search = await self._store.wish(search_id, Wish.CANCEL)
        if search.progress.state is not SearchState.RUNNING:
            return search
        await self._supervisor.cancel(search_id)
        await self._supervisor.wait_for_driver(search_id)
        return await self._store.wish(search_id, Wish.CANCEL, over_driver=True)


def _check_policy(spec: SearchSpec) -> None:
    try:
        create_policy(spec.policy, spec.seed)
    except UnknownPolicyError as error:
        violation = FieldViolation("spec.policy.name", str(error))
        raise InvalidArgumentError(str(error), reason="POLICY_UNKNOWN", violations=[violation]) from error
