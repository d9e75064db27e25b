"""Clients of the controller API; errors are `adaexplore.runtime.errors.ServiceError`s."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import cast

from adaexplore.client.base import AsyncClient, SyncClient
from adaexplore.client.security import PLAINTEXT, ChannelSecurity
from adaexplore.controller.v1 import controller_pb2 as pb
from adaexplore.controller.v1 import controller_pb2_grpc as rpc


class AsyncControllerClient(AsyncClient):
    """Asynchronous client of the controller API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "controller"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.ControllerServiceStub(self._channel)

    async def start_search(self, request: pb.StartSearchRequest, timeout_s: float | None = None) -> pb.StartSearchResponse:
        """Starts a search and returns at once; WatchSearch follows it."""
        return cast(pb.StartSearchResponse, await self._unary(self._stub.StartSearch, request, timeout_s))

    async def estimate_search(self, request: pb.EstimateSearchRequest, timeout_s: float | None = None) -> pb.EstimateSearchResponse:
        """Says what a search would use and cost, without starting it or asking a model."""
        return cast(pb.EstimateSearchResponse, await self._unary(self._stub.EstimateSearch, request, timeout_s))

    async def get_search(self, request: pb.GetSearchRequest, timeout_s: float | None = None) -> pb.GetSearchResponse:
        """Returns one search."""
        return cast(pb.GetSearchResponse, await self._unary(self._stub.GetSearch, request, timeout_s))

    async def list_searches(self, request: pb.ListSearchesRequest, timeout_s: float | None = None) -> pb.ListSearchesResponse:
        """Lists searches, the newest first."""
        return cast(pb.ListSearchesResponse, await self._unary(self._stub.ListSearches, request, timeout_s))

    def watch_search(self, request: pb.WatchSearchRequest, timeout_s: float | None = None) -> AsyncIterator[pb.WatchSearchResponse]:
        """Streams the events of a search from a sequence number on, and ends when the search has ended or is paused."""
        return self._stream(self._stub.WatchSearch, request, timeout_s)

    async def pause_search(self, request: pb.PauseSearchRequest, timeout_s: float | None = None) -> pb.PauseSearchResponse:
        """Pauses a search after the steps in flight."""
        return cast(pb.PauseSearchResponse, await self._unary(self._stub.PauseSearch, request, timeout_s))

    async def resume_search(self, request: pb.ResumeSearchRequest, timeout_s: float | None = None) -> pb.ResumeSearchResponse:
        """Continues a search that is paused or was interrupted."""
        return cast(pb.ResumeSearchResponse, await self._unary(self._stub.ResumeSearch, request, timeout_s))

    async def cancel_search(self, request: pb.CancelSearchRequest, timeout_s: float | None = None) -> pb.CancelSearchResponse:
        """Cancels a search for good; what it found is kept."""
        return cast(pb.CancelSearchResponse, await self._unary(self._stub.CancelSearch, request, timeout_s))

    async def list_nodes(self, request: pb.ListNodesRequest, timeout_s: float | None = None) -> pb.ListNodesResponse:
        """Lists the nodes of a search in order of creation."""
        return cast(pb.ListNodesResponse, await self._unary(self._stub.ListNodes, request, timeout_s))

    async def get_node(self, request: pb.GetNodeRequest, timeout_s: float | None = None) -> pb.GetNodeResponse:
        """Returns one node with its source."""
        return cast(pb.GetNodeResponse, await self._unary(self._stub.GetNode, request, timeout_s))


class ControllerClient(SyncClient):
    """Synchronous client of the controller API. Each method is the RPC of that name; its proto comment lists the errors."""

    api = "controller"

    def __init__(self, address: str, security: ChannelSecurity = PLAINTEXT) -> None:
        super().__init__(address, security)
        self._stub = rpc.ControllerServiceStub(self._channel)

    def start_search(self, request: pb.StartSearchRequest, timeout_s: float | None = None) -> pb.StartSearchResponse:
        """Starts a search and returns at once; WatchSearch follows it."""
        return cast(pb.StartSearchResponse, self._unary(self._stub.StartSearch, request, timeout_s))

    def estimate_search(self, request: pb.EstimateSearchRequest, timeout_s: float | None = None) -> pb.EstimateSearchResponse:
        """Says what a search would use and cost, without starting it or asking a model."""
        return cast(pb.EstimateSearchResponse, self._unary(self._stub.EstimateSearch, request, timeout_s))

    def get_search(self, request: pb.GetSearchRequest, timeout_s: float | None = None) -> pb.GetSearchResponse:
        """Returns one search."""
        return cast(pb.GetSearchResponse, self._unary(self._stub.GetSearch, request, timeout_s))

    def list_searches(self, request: pb.ListSearchesRequest, timeout_s: float | None = None) -> pb.ListSearchesResponse:
        """Lists searches, the newest first."""
        return cast(pb.ListSearchesResponse, self._unary(self._stub.ListSearches, request, timeout_s))

    def watch_search(self, request: pb.WatchSearchRequest, timeout_s: float | None = None) -> Iterator[pb.WatchSearchResponse]:
        """Streams the events of a search from a sequence number on, and ends when the search has ended or is paused."""
        return self._stream(self._stub.WatchSearch, request, timeout_s)

    def pause_search(self, request: pb.PauseSearchRequest, timeout_s: float | None = None) -> pb.PauseSearchResponse:
        """Pauses a search after the steps in flight."""
        return cast(pb.PauseSearchResponse, self._unary(self._stub.PauseSearch, request, timeout_s))

    def resume_search(self, request: pb.ResumeSearchRequest, timeout_s: float | None = None) -> pb.ResumeSearchResponse:
        """Continues a search that is paused or was interrupted."""
        return cast(pb.ResumeSearchResponse, self._unary(self._stub.ResumeSearch, request, timeout_s))

    def cancel_search(self, request: pb.CancelSearchRequest, timeout_s: float | None = None) -> pb.CancelSearchResponse:
        """Cancels a search for good; what it found is kept."""
        return cast(pb.CancelSearchResponse, self._unary(self._stub.CancelSearch, request, timeout_s))

    def list_nodes(self, request: pb.ListNodesRequest, timeout_s: float | None = None) -> pb.ListNodesResponse:
        """Lists the nodes of a search in order of creation."""
        return cast(pb.ListNodesResponse, self._unary(self._stub.ListNodes, request, timeout_s))

    def get_node(self, request: pb.GetNodeRequest, timeout_s: float | None = None) -> pb.GetNodeResponse:
        """Returns one node with its source."""
        return cast(pb.GetNodeResponse, self._unary(self._stub.GetNode, request, timeout_s))
