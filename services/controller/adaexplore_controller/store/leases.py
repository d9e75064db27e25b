"""Leases: which controller process drives a search, and until when."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Row, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from adaexplore.runtime.sql import insert_or
from adaexplore_controller.domain import Wish
from adaexplore_controller.store import tables


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A controller process. `host` names kernel and process namespace, `process` the process within it; both may be empty."""

    owner: str
    host: str = ""
    process: str = ""

    @classmethod
    def this_process(cls, owner: str) -> LeaseHolder:
        """Return this process under the given unique owner id; ids of one host are comparable whoever runs there."""
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            host = f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
        except OSError:
            return cls(owner)
        return cls(owner, host, f"{os.getpid()}/{_start_ticks(os.getpid())}")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one process to drive one search until an instant (seconds since the epoch)."""

    holder: LeaseHolder
    expire_time: float


class Liveness(Protocol):
    """Tells whether the process behind a lease is alive."""

    def __call__(self, holder: LeaseHolder) -> bool | None:
        """Return True or False where it is known, None where it is not."""
        ...


def is_alive(holder: LeaseHolder) -> bool | None:
    """Tell whether the holder is alive; None if it ran on another host or in another process namespace."""
    here = LeaseHolder.this_process("")
    if not holder.host or holder.host != here.host:
        return None
    pid, _, ticks = holder.process.partition("/")
    return _start_ticks(int(pid)) == ticks


def _start_ticks(pid: int) -> str:
    # Fields are counted after the command, which may hold spaces and parentheses; the start time is the 22nd of the line.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def lease_from(row: Row[Any]) -> Lease:
    """Return the lease that a row of `leases` holds."""
    return Lease(LeaseHolder(row.owner, row.host, row.process), row.expire_time)


async def write(connection: AsyncConnection, search_id: str, lease: Lease) -> None:
    """Give the lease of a search to a holder, whoever has it."""
    holder = lease.holder
    values = {"owner": holder.owner, "host": holder.host, "process": holder.process, "expire_time": lease.expire_time}
    statement = insert_or(connection, tables.leases).values(search_id=search_id, **values)
    await connection.execute(statement.on_conflict_do_update(index_elements=["search_id"], set_=values))


async def renew(connection: AsyncConnection, owner: str, search_ids: Collection[str], expire_time: float) -> Mapping[str, Wish]:
    """Prolong the leases that the owner still holds and return their searches with what users wish of them."""
    mine = (tables.leases.c.owner == owner) & tables.leases.c.search_id.in_(search_ids)
    # Rows are locked first: whoever is about to adopt one of them is waited for, and then it is not among ours any more.
    held = (await connection.execute(select(tables.leases.c.search_id).where(mine).with_for_update())).scalars().all()
    await connection.execute(update(tables.leases).where(tables.leases.c.search_id.in_(held)).values(expire_time=expire_time))
    wishes = await connection.execute(select(tables.searches.c.id, tables.searches.c.wish).where(tables.searches.c.id.in_(held)))
    return {row.id: Wish(row.wish) for row in wishes}


async def release(connection: AsyncConnection, owner: str, search_id: str) -> None:
    """Give a lease up if the owner holds it."""
    await connection.execute(delete(tables.leases).where((tables.leases.c.owner == owner) & (tables.leases.c.search_id == search_id)))
