#!/usr/bin/env bash
# Makes the certificates, tokens and passwords of a deployment on one machine for Compose and for the overlay local. Never used by
# production, whose secrets come from elsewhere. What is there already stays; delete the folder to begin anew.
#   ADAEXPLORE_CERT_NAMES  further names of this machine in the certificates, for example DNS:gpu-box.example,IP:192.0.2.7
#   ADAEXPLORE_CERT_DAYS   how long they are valid; 365 by default
set -euo pipefail
umask 077
cd "$(dirname "$0")"
out=${1:-kustomize/overlays/local/secrets}
days=${ADAEXPLORE_CERT_DAYS:-365}
mkdir -p "$out"
cd "$out"

random() { openssl rand -hex 32; }
[ -e ca.key ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$days" -subj "/CN=adaexplore local authority" \
  -keyout ca.key -out ca.crt -addext "keyUsage=critical,keyCertSign,cRLSign" 2>/dev/null
[ -e postgres.password ] || random | tr -d '\n' >postgres.password
[ -e controller.peer-token ] || random >controller.peer-token
[ -e user.token ] || random >user.token

for name in generator evaluator memory controller; do
  if [ ! -e "$name.crt" ]; then
    # Clients check the name they called: the Service's, Compose's, or localhost through a port that is forwarded.
    names="DNS:$name,DNS:$name.adaexplore,DNS:$name.adaexplore.svc,DNS:localhost,IP:127.0.0.1"
    names="$names${ADAEXPLORE_CERT_NAMES:+,$ADAEXPLORE_CERT_NAMES}"
    if [ "$name" = evaluator ]; then names="$names,DNS:evaluator-cpu,DNS:evaluator-nvidia-h100"; fi
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>/dev/null
    openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -days "$days" -out "$name.crt" 2>/dev/null -extfile <(
      echo "subjectAltName=$names"
      echo "extendedKeyUsage=serverAuth,clientAuth"
      echo "basicConstraints=critical,CA:FALSE"
    )
    rm "$name.csr"
  fi
  # Servers need to know tokens, not to have them: they get the digest.
  token=controller.peer-token caller=controller
  if [ "$name" = controller ]; then token=user.token caller=user; fi
  [ -e "$name.tokens" ] || echo "$caller:sha256:$(tr -d '\n' <"$token" | sha256sum | cut -d' ' -f1)" >"$name.tokens"
  if [ "$name" != evaluator ] && [ ! -e "$name.database-url" ]; then
    echo "postgresql://adaexplore:$(cat postgres.password)@postgres:5432/adaexplore" >"$name.database-url"
  fi
done
[ -e openai-api-key ] || : >openai-api-key
# Compose mounts files as they are: the services run as whoever owns them, root excepted.
user=$(id -u):$(id -g)
if [ "$user" = 0:0 ]; then user=65532:65532; find . -type f ! -name ca.key ! -name compose.env -exec chown 65532:65532 {} +; fi
echo "ADAEXPLORE_USER=$user" >compose.env
