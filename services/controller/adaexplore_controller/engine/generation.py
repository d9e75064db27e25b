"""What becomes of a generation that brings no candidate: its reply was lost, or the provider has nothing for the task at all."""

from __future__ import annotations

from adaexplore.runtime.errors import AbortedError, DeadlineError, FailedPreconditionError
from adaexplore_controller.domain import Candidate, Node, Outcome, SearchState, StopReason, Usage
from adaexplore_controller.engine.journal import SearchStoppedError
from adaexplore_controller.engine.patience import PeerFailedError
from adaexplore_controller.ports import GenerationRequest, GeneratorPeer, Listener

# A provider that loses so many replies in a row is not going to answer the next one.
MOST_LOST_IN_A_ROW = 3


async def generate_once(generator: GeneratorPeer, request: GenerationRequest, listener: Listener) -> Candidate:
    """Return the candidate; one without a kernel, with what the provider said as its message, if the reply was lost.

    After a provider has had a request it may have been paid for, so nobody repeats it.

    Raises:
        SearchStoppedError: The provider has nothing for this task: PyTorch's own kernels stay, which is a result and no fault.
        ServiceError: The generator refused or is out of reach, and nothing was paid for.

    """
    try:
        return await generator.generate(request, listener)
    except (AbortedError, DeadlineError) as error:
        # What it cost is unknown until the generator is asked, and a sum with an unknown part is unknown.
        return Candidate(Outcome.EMPTY, usage=Usage(calls=1), message=str(PeerFailedError("generator", error)), lost=True)
    except FailedPreconditionError as error:
        if error.reason == "GRAPH_REQUIRED":
            raise SearchStoppedError(SearchState.SUCCEEDED, StopReason.EXHAUSTED, " ".join(error.message.split())) from error
        raise


def lost_too_often(nodes: tuple[Node, ...]) -> bool:
    """Tell whether the newest nodes, the newest last, are all of lost replies and as many as end a search."""
    return len(nodes) >= MOST_LOST_IN_A_ROW and all(node.candidate.lost for node in nodes[-MOST_LOST_IN_A_ROW:])
