#!/usr/bin/env bash
# Generates *_pb2*.py[i] into a source root, or compares a fresh generation with src (--check).
set -euo pipefail
BIN=${BIN:-.venv/bin}
target=${1:?usage: proto.sh ROOT|--check}
check=
if [ "$target" = --check ]; then check=1 target=$(mktemp -d); trap 'rm -rf "$target"' EXIT; fi
mapfile -t protos < <(cd protos && find adaexplore -name '*.proto' | sort)
PATH="$BIN:$PATH" "$BIN/python" -m grpc_tools.protoc -Iprotos --python_out="$target" --grpc_python_out="$target" \
  --mypy_out="$target" --mypy_grpc_out="$target" "${protos[@]}"
find "$target/adaexplore" -name '*_pb2_grpc.py*' | while read -r f; do
  case $f in */types/*|*error_reason*) rm "$f" ;; esac
done
while read -r f; do cp "protos/$f" "$target/$f"; done < <(cd protos && find adaexplore -name '*_grpc_service_config.json')
[ -n "$check" ] || exit 0
status=0
while read -r f; do
  cmp -s "$target/$f" "src/$f" || { echo "stale: src/$f (run make proto)"; status=1; }
done < <(cd "$target" && find adaexplore -type f | sort)
while read -r f; do
  [ -e "$target/$f" ] || { echo "orphan: src/$f (its proto is gone)"; status=1; }
done < <(cd src && find adaexplore -name '*_pb2*' -not -name '*.pyc' | sort)
exit $status
