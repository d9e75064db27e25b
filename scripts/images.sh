#!/usr/bin/env bash
# Builds the services' images and prints their sizes: images.sh [NAME…]. Where no registry can be reached, `images.sh base` makes a base image
# and `images.sh postgres` a PostgreSQL to try the services with.
#   ENGINE      docker (the default) or buildah
#   TAG         tag of the images; the version by default
#   BUILD_ARGS  further words for the engine, for example --build-arg BASE_IMAGE=localhost/adaexplore-base:12
set -euo pipefail
cd "$(dirname "$0")/.."
ENGINE=${ENGINE:-docker}
TAG=${TAG:-$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)}
BASE=localhost/adaexplore-base:12
read -ra args <<<"${BUILD_ARGS:-}"

build() {
  local file="services/$1/Dockerfile"
  [ "$1" != postgres ] || file=scripts/postgres.Dockerfile
  case $ENGINE in
    docker) docker buildx build --load "${args[@]}" -f "$file" -t "adaexplore-$1:$TAG" . ;;
    buildah) buildah bud -q --layers --format docker --isolation chroot "${args[@]}" -f "$file" -t "localhost/adaexplore-$1:$TAG" . ;;
    *) echo "images: ENGINE must be docker or buildah, not $ENGINE" >&2; return 2 ;;
  esac
}

size() {
  case $ENGINE in
    docker) docker image inspect --format '{{.Size}}' "adaexplore-$1:$TAG" | numfmt --to=si --suffix=B ;;
    buildah) buildah images --format '{{.Size}}' "localhost/adaexplore-$1:$TAG" ;;
  esac
}

# A plain Debian 12, as docker.io/library/debian:12-slim is, with this machine's certificates and pip's settings.
base() {
  local root
  root=$(mktemp -d)
  trap 'rm -rf "$root"' RETURN
  chmod 755 "$root"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  {
    echo "[global]"
    pip config list | sed -n "s/^global\.\(cert\|find-links\|extra-index-url\|index-url\)='\(.*\)'$/\1 = \2/p"
  } >"$root/etc/pip.conf"
  tar -C "$root" -c . | podman import -q - "$BASE"
}

[ "$ENGINE" != docker ] || [ "${1:-}" = base ] || docker info >/dev/null 2>&1 ||
  { echo "images: no Docker engine answers; start one, or set ENGINE=buildah" >&2; exit 1; }
if [ "${1:-}" = base ]; then base; exit; fi
[ $# -gt 0 ] || set -- generator evaluator memory controller
for name in "$@"; do build "$name"; done
for name in "$@"; do printf '%-12s %s\n' "$name" "$(size "$name" | tail -1)"; done
