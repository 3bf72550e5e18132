#!/usr/bin/env bash
# All tests, part after part, each by its own target, and a table at the end. About 90 minutes.
# Usage: test-all.sh [PART...]     each part's output lies in build/tests/PART.log
set -uo pipefail
cd "$(dirname "$0")/.."
# Soaks of five minutes; `make test-faults` alone has those of half an hour.
export SCHEDULEARN_TEST_SOAK=${SCHEDULEARN_TEST_SOAK:-300}
[ $# -gt 0 ] || set -- test test-long test-docker test-page test-postgres test-faults test-schema test-references test-hosts test-training audit
mkdir -p build/tests
table=
failed=0
for part in "$@"; do
  printf '%-14s ' "$part"
  began=$SECONDS
  if make --no-print-directory "$part" >"build/tests/$part.log" 2>&1; then outcome=passed; else outcome=FAILED failed=1; fi
  found=$(grep -E '^=+ .*(passed|failed|error|skipped).* =+$' "build/tests/$part.log" | tail -1 | tr -d =)
  line=$(printf '%-7s %5d s %s' "$outcome" $((SECONDS - began)) "$found")
  echo "$line"
  table+=$(printf '%-14s %s' "$part" "$line")$'\n'
done
printf '\n%s' "$table"
[ "$failed" = 0 ] || echo "What failed is in build/tests/PART.log"
exit "$failed"
