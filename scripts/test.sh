#!/usr/bin/env bash
# Lints, type-checks and tests. Installs what the tests need beside Python where root can, and says what they skip.
# Usage: test.sh VENV/bin [--lint-only] [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
shift

step() { printf '\n== %s\n' "$*"; }

step lint
"$bin/ruff" check .
"$bin/ruff" format --check --quiet .
"$bin/mypy"
"$bin/lint-imports" --no-cache >/dev/null || "$bin/lint-imports" --no-cache
[ "${1:-}" = --lint-only ] && exit 0

if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  step "installing Debian's chromium for the tests of the page"
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || true
fi

if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v initdb >/dev/null \
  && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  step "installing Debian's PostgreSQL for the tests of services that share a database"
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null || true
fi

# Slow to build, cached between runs, and better seen in progress here than as a silent test.
step "Horovod (built once, then cached)"
worker_images/build-env.sh
if [ -n "${SCHEDULEARN_TEST_TRAINING:-}" ]; then
  for flavour in keras tensorflow mxnet; do
    step "Horovod for $flavour (built once, then cached)"
    worker_images/build-env.sh "$flavour"
  done
fi
engine=$(scripts/dev-engine.sh start) || true
started=${engine##*$'\n'}
if [[ $started == DOCKER_HOST=* ]]; then
  trap 'scripts/dev-engine.sh stop >/dev/null' EXIT
  step "worker image (built once, then cached)"
  env "$started" worker_images/build-image.sh cpu
  export SCHEDULEARN_TEST_DOCKER_HOST=${started#DOCKER_HOST=}
else
  printf '\n!! No Docker Engine: every test that needs one will be SKIPPED.\n!! %s\n' "$engine"
fi

step "page"
for check in lint api:check test; do (cd ui && ../scripts/node.sh ../.venv npm run --silent "$check"); done

step "known weaknesses of what the lock files name"
# Loud, but no failure: what becomes known of a dependency today makes no test of yesterday's change wrong.
"$bin/python" scripts/audit.py || printf '\n!! WEAKNESSES ARE KNOWN (above). `make audit` fails until they are mended or accepted.\n'

step tests
# Two workers: most tests wait more than they compute. tests/conftest.py says which must not run beside each other.
# Later arguments win: `make test ARGS="-n 0 --pdb"` is one process.
failed=.pytest_cache/v/cache/lastfailed
rm -f "$failed"
status=0
"$bin/pytest" -n 2 --dist loadscope --no-loadscope-reorder "$@" || status=$?
# 1: tests failed. Anything else (no test was found, an internal error, Ctrl-C) has nothing to run again.
if [ "$status" = 1 ]; then
  status=0
  "$bin/python" scripts/again.py "$failed" || status=$?
fi
exit "$status"
