#!/usr/bin/env bash
# Builds the example clients from the protos, or runs one against a controller.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
clients="$root/examples/clients"
usage="usage: clients.sh build [node|cpp|go|java…] | run NAME HOST:PORT TASK.py STEPS | missing NAME"

missing() { # what a client's README asks for and this machine has not
  local commands files=
  case $1 in
    node) commands="node npm" ;;
    cpp) commands="g++ make pkg-config protoc grpc_cpp_plugin" files=/usr/include/grpcpp/grpcpp.h ;;
    go) commands="go make protoc protoc-gen-go protoc-gen-go-grpc" files=/usr/share/gocode/src/google.golang.org/grpc/dialoptions.go ;;
    java) commands="javac make protoc grpc_java_plugin" files="/usr/share/java/grpc-netty.jar /usr/share/java/perfmark-api.jar /usr/share/java/netty-tcnative.jar" ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  for item in $commands; do command -v "$item" >/dev/null || echo "$item"; done
  for item in $files; do [ -e "$item" ] || echo "$item"; done
}

build() {
  local lacking
  lacking=$(missing "$1" | tr '\n' ' ')
  [ -z "$lacking" ] || { echo "clients: $1: not found: ${lacking% }; examples/clients/$1/README.md names the packages" >&2; return 1; }
  case $1 in
    node)
      cd "$clients/node"
      # npm ci removes what is there, so it runs only when the lock has changed.
      cmp -s package-lock.json build/package-lock.json || { npm ci --no-audit --no-fund --silent; mkdir -p build; cp package-lock.json build/; }
      npm run --silent build ;;
    *) make -s -j2 -C "$clients/$1" ;;
  esac
}

case ${1:-} in
  build)
    shift
    [ $# -gt 0 ] || set -- node cpp go java
    for name in "$@"; do (build "$name"); done ;;
  run)
    [ $# = 5 ] || { echo "$usage" >&2; exit 2; }
    case $2 in
      node) exec node "$clients/node/build/js/client.js" "${@:3}" ;;
      *) exec "$clients/$2/build/client" "${@:3}" ;;
    esac ;;
  missing) missing "${2:-}" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
