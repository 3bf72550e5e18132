#!/usr/bin/env bash
# Lints, type-checks and tests. Installs what the tests need beside Python where root can, and says what they skip.
# Usage: test.sh VENV/bin lint|check|test|all [pytest arguments]     tiers: docs/contributing.md
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
tier=$2
shift 2

unset PYTHONDONTWRITEBYTECODE # else each process that a test starts compiles everything anew

step() { printf '\n== %s\n' "$*"; }

lint() {
  "$bin/ruff" check .
  "$bin/ruff" format --check --quiet .
  "$bin/mypy"
  "$bin/lint-imports" --no-cache >/dev/null || "$bin/lint-imports" --no-cache
}
page() { for check in api lint test; do (cd ui && ../scripts/node.sh ../.venv npm run --silent "$check") || return; done; }

# Debian's package $1, for $2, where root can install it.
install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
  step "installing Debian's $1 for $2"
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null || true
}

if [ "$tier" = lint ]; then
  step lint
  lint
  exit
fi

# Loud, but no failure: what becomes known of a dependency today makes no test of yesterday's change wrong.
audit() {
  "$bin/python" scripts/audit.py || printf '\n!! WEAKNESSES ARE KNOWN (above). `make audit` fails until they are mended or accepted.\n'
}

if [ "$tier" != all ]; then
  # Beside each other: the types of Python take one core, the page's checks the other, and the audit waits for others.
  step "lint, and the page"
  mkdir -p build
  if [ "$tier" = test ]; then audit >build/audit.txt 2>&1 & fi
  audit=${!:-}
  page >build/page.txt 2>&1 &
  page=$!
  lint
  wait "$page" || { cat build/page.txt; exit 1; }
  if [ "$audit" ]; then
    step "known weaknesses of what the lock files name"
    wait "$audit"
    cat build/audit.txt
  fi
fi

if [ "$tier" != check ]; then
  command -v chromium >/dev/null || install chromium "the tests of the page"
  # Slow to build, cached between runs, and better seen in progress here than as a silent test.
  step "Horovod (built once, then cached)"
  worker_images/build-env.sh
  if [ -n "${SCHEDULEARN_TEST_TRAINING:-}" ]; then
    for flavour in keras tensorflow mxnet; do
      step "Horovod for $flavour (built once, then cached)"
      worker_images/build-env.sh "$flavour"
    done
  fi
  # One that runs already may have other users: the end of these tests is not its end.
  scripts/dev-engine.sh status >/dev/null && found=yes || found=
  engine=$(scripts/dev-engine.sh start) || true
  started=${engine##*$'\n'}
  if [[ $started == DOCKER_HOST=* ]]; then
    [ "$found" ] || trap 'scripts/dev-engine.sh stop >/dev/null' EXIT
    step "worker image (built once, then cached)"
    env "$started" worker_images/build-image.sh cpu
    export SCHEDULEARN_TEST_DOCKER_HOST=${started#DOCKER_HOST=}
  else
    printf '\n!! No Docker Engine: every test that needs one will be SKIPPED.\n!! %s\n' "$engine"
  fi
fi
if [[ " $* " == *" --postgres "* ]] && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v initdb >/dev/null; then
  install postgresql "services that share a database"
fi

step tests
# Five workers: many tests wait more than they compute. tests/support/tiers.py says which must not run beside each other.
# Later arguments win: `make test ARGS="-n 0 --pdb"` is one process.
failed=.pytest_cache/v/cache/lastfailed
rm -f "$failed"
status=0
"$bin/pytest" -n 5 --dist loadscope --no-loadscope-reorder --tier "$tier" \
  --durations 30 --durations-min 0.5 --junitxml "build/tests/$tier.xml" "$@" || status=$?
# 1: tests failed. Anything else (no test was found, an internal error, Ctrl-C) has nothing to run again.
if [ "$status" = 1 ]; then
  status=0
  "$bin/python" scripts/again.py "$failed" || status=$?
fi
exit "$status"
