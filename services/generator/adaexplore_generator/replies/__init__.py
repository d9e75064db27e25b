"""Paid replies, calls that brought none, and prompts that somebody outside is to answer, kept by request id."""

from adaexplore_generator.replies.desk import Desk, ExternalReply, ExternalRequest
from adaexplore_generator.replies.store import Paid, ReplyStore
from adaexplore_generator.replies.tables import SCHEMA

__all__ = ["SCHEMA", "Desk", "ExternalReply", "ExternalRequest", "Paid", "ReplyStore"]
