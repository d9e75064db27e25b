"""Private folders that what they belonged to may have left in any state: their size and their removal.

Nothing here recurses, since a folder may be nested deeper than Python's stack.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """Bytes on disk of the files below a folder; what vanishes meanwhile counts nothing."""
    total = 0
    places = [str(folder)]
    for place in places:
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        places.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def remove_folder(folder: Path) -> None:
    """Remove a folder whose processes have ended with all that is in it, whatever modes and depth they gave it."""
    places = [folder]
    for place in places:
        with suppress(OSError):
            place.chmod(0o700)
        with suppress(OSError):
            for entry in list(place.iterdir()):
                with suppress(OSError):
                    if entry.is_dir() and not entry.is_symlink():
                        places.append(_lifted(entry, folder))
                    else:
                        entry.unlink()
    for place in reversed(places):
        with suppress(OSError):
            place.rmdir()


def _lifted(entry: Path, top: Path) -> Path:
    """The folder moved right below `top`, so that no path grows longer than the system allows."""
    entry.chmod(0o700)
    return entry.rename(top / f"removed-{secrets.token_hex(8)}")
