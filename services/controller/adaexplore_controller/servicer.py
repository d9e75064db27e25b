"""The controller API: protos in, protos out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.controller.v1 import controller_pb2_grpc as rpc
from adaexplore_controller import convert
from adaexplore_controller.convert_spec import spec_from
from adaexplore_controller.engine.control import Control
from adaexplore_controller.engine.watch import Watcher
from adaexplore_controller.ensemble import Contributions
from adaexplore_controller.store import History, Ledger, SearchStore
from adaexplore_controller.tree import ROOT_STEP

Context = grpc.aio.ServicerContext[Any, Any]


class ControllerServicer(rpc.ControllerServiceServicer):
    """Answers the controller API. Each method is the RPC of that name; its proto comment lists the errors.

    Args:
        control: Starts, pauses, resumes and cancels searches.
        watcher: Streams events.
        store: Reads searches.
        history: Reads nodes.
        ledger: Reads what is reserved.

    """

    def __init__(self, control: Control, watcher: Watcher, store: SearchStore, history: History, ledger: Ledger) -> None:
        self._control, self._watcher, self._store, self._history, self._ledger = control, watcher, store, history, ledger

    async def StartSearch(self, request: pb.StartSearchRequest, context: Context) -> pb.StartSearchResponse:
        """Start a search and return at once."""
        search = await self._control.start(spec_from(request.spec), convert.request_id(request.request_id))
        return pb.StartSearchResponse(search=convert.search_to(search))

    async def EstimateSearch(self, request: pb.EstimateSearchRequest, context: Context) -> pb.EstimateSearchResponse:
        """Say what a search would use and cost, without starting it."""
        return convert.estimate_to(await self._control.estimate(spec_from(request.spec)))

    async def GetSearch(self, request: pb.GetSearchRequest, context: Context) -> pb.GetSearchResponse:
        """Return one search."""
        search = await self._store.get(convert.search_id(request.name))
        purse = await self._ledger.purse(search.id)
        message = convert.search_to(search, reserved_micro_usd=purse.reserved)
        if search.spec.ensemble:
            brought = Contributions(len(search.spec.ensemble.weights), await self._history.nodes(search.id))
            message.contributions.extend(convert.contribution_to(item) for item in brought.each)
        return pb.GetSearchResponse(search=message)

    async def ListSearches(self, request: pb.ListSearchesRequest, context: Context) -> pb.ListSearchesResponse:
        """List searches, the newest first."""
        size, before = convert.page_size(request.page_size), convert.page_token(request.page_token)
        found = await self._store.page(size + 1, before)
        kept = convert.fitting(convert.search_to(search, description=False) for search in found[:size])
        token = str(found[len(kept) - 1].number) if len(kept) < len(found) else ""
        return pb.ListSearchesResponse(searches=kept, next_page_token=token)

    async def WatchSearch(self, request: pb.WatchSearchRequest, context: Context) -> AsyncIterator[pb.WatchSearchResponse]:
        """Stream the events of a search from a sequence number on."""
        search_id, after = convert.search_id(request.name), convert.sequence(request.after_sequence)
        async for search, event, node in self._watcher.follow(search_id, after):
            yield pb.WatchSearchResponse(event=convert.event_to(search, event, node))

    async def PauseSearch(self, request: pb.PauseSearchRequest, context: Context) -> pb.PauseSearchResponse:
        """Pause a search after the step in flight."""
        search = await self._control.pause(convert.search_id(request.name))
        return pb.PauseSearchResponse(search=convert.search_to(search))

    async def ResumeSearch(self, request: pb.ResumeSearchRequest, context: Context) -> pb.ResumeSearchResponse:
        """Continue a search that is paused or was interrupted."""
        search = await self._control.resume(convert.search_id(request.name))
        return pb.ResumeSearchResponse(search=convert.search_to(search))

    async def CancelSearch(self, request: pb.CancelSearchRequest, context: Context) -> pb.CancelSearchResponse:
        """Cancel a search for good."""
        search = await self._control.cancel(convert.search_id(request.name))
        return pb.CancelSearchResponse(search=convert.search_to(search))

    async def ListNodes(self, request: pb.ListNodesRequest, context: Context) -> pb.ListNodesResponse:
        """List the nodes of a search in order of creation."""
        size, after = convert.page_size(request.page_size), convert.page_token(request.page_token) or ROOT_STEP
        search = await self._store.get(convert.search_id(request.parent, "parent"))
        found = await self._history.nodes(search.id, after, size + 1)
        kept = convert.fitting(convert.node_to(search.name, node) for node in found[:size])
        token = str(found[len(kept) - 1].step) if len(kept) < len(found) else ""
        return pb.ListNodesResponse(nodes=kept, next_page_token=token)

    async def GetNode(self, request: pb.GetNodeRequest, context: Context) -> pb.GetNodeResponse:
        """Return one node with its source."""
        search_id, step = convert.node_id(request.name)
        search = await self._store.get(search_id)
        node = await self._history.node(search.id, step)
        return pb.GetNodeResponse(node=convert.node_to(search.name, node, source=True))
