# Debian's own PostgreSQL behind as much of the public image's interface as the overlay `local` uses, for machines that reach no registry:
# scripts/images.sh postgres builds it, scripts/containers.py --postgres runs it. No deployment uses it.
ARG BASE_IMAGE=docker.io/library/debian:12-slim

FROM ${BASE_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/* \
    && groupadd --gid 999 database \
    && useradd -K UID_MIN=999 --uid 999 --gid 999 --no-create-home --home-dir /var/lib/postgresql --shell /usr/sbin/nologin database \
    && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/
RUN printf '%s\n' '#!/bin/sh' 'set -eu' \
    'if [ ! -s "$PGDATA/PG_VERSION" ]; then' \
    '  initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256' \
    '  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"' \
    '  pg_ctl --pgdata="$PGDATA" --wait -o "-c listen_addresses=" start' \
    '  createdb --username="$POSTGRES_USER" "$POSTGRES_DB"' \
    '  pg_ctl --pgdata="$PGDATA" --wait stop' \
    'fi' \
    'exec postgres -D "$PGDATA" -c "listen_addresses=*"' >/usr/local/bin/entrypoint \
    && chmod 755 /usr/local/bin/entrypoint
USER 999:999
# A shutdown that waits for no client, as the public image's.
STOPSIGNAL SIGINT
EXPOSE 5432
HEALTHCHECK --interval=15s --timeout=15s --start-period=60s CMD ["pg_isready", "-h", "127.0.0.1"]
ENTRYPOINT ["entrypoint"]
