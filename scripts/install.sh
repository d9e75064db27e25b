#!/usr/bin/env bash
# Makes the virtual environment with every extra; picks the CPU build of torch where no GPU is found.
set -euo pipefail
PYTHON=${PYTHON:-python3} VENV=${VENV:-.venv}
[ "$(uname -s)" = Linux ] || { echo "AdaExplore runs on Linux only: Triton has wheels for nothing else." >&2; exit 1; }
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…" >&2; exit 1; }
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }

if ! "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
  torch=$(grep -E '^torch==' constraints.txt)
  if [ ! -e /dev/nvidia0 ] && [ -n "${ADAEXPLORE_TORCH_INDEX:-}" ]; then
    # A plain install brings gigabytes of CUDA on Linux; PyTorch's index of CPU builds, named by the caller, does not.
    pip install -q --index-url "$ADAEXPLORE_TORCH_INDEX" "$torch"
  else
    [ -e /dev/nvidia0 ] || echo "note: no GPU was found; pip's own choice of $torch may bring gigabytes of CUDA. Set ADAEXPLORE_TORCH_INDEX to" \
      "PyTorch's index of CPU builds to avoid that." >&2
    pip install -q "$torch"
  fi
fi
pip install -q -c constraints.txt -e '.[dev]'
command -v bwrap >/dev/null || echo "note: bubblewrap is not installed; candidates run with limits and a scrubbed environment only (apt-get install bubblewrap)." >&2
