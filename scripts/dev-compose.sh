#!/usr/bin/env bash
# Docker Compose for tests and development. Last line: COMPOSE=docker compose, or COMPOSE=docker-compose
#
# The one that is there is used; where root can, Debian's package is installed. Exit code 3: it cannot be had, and why.
set -euo pipefail

found() {
    if docker compose version >/dev/null 2>&1; then
        echo "COMPOSE=docker compose"
    elif docker-compose version >/dev/null 2>&1; then
        echo "COMPOSE=docker-compose"
    else
        return 1
    fi
}

give_up() { # reason
    echo "error: $1" >&2
    exit 3
}

if found; then exit; fi
[ "$(id -u)" -eq 0 ] || give_up "Docker Compose is missing, and only root can install it"
command -v apt-get >/dev/null || give_up "Docker Compose is missing, and there is no apt-get"
export DEBIAN_FRONTEND=noninteractive
echo "installing Docker Compose"
apt-get update -qq >&2 || true
# Ubuntu's name, then Debian's: since Debian 13 that is version 2 as well.
for package in docker-compose-v2 docker-compose; do
    if apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 && found; then exit; fi
done
give_up "Docker Compose could not be installed: neither docker-compose-v2 nor docker-compose can be had by apt-get"
