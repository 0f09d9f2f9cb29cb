#!/usr/bin/env bash
# Restart rules: the built-in table stops what a restart cannot mend and says what to do, a job's
# and a site's rules come before it, and rules can be tried on a log and on recorded runs.
. "$(dirname "$0")/harness.sh"

expect 0 "$MUSTER" validate "$source/configs/policy.yml"
job_file memory.yml <<'YAML'
command: echo "CUDA out of memory. Tried to allocate 2 GiB" >&2; exit 1
muster: {restart: {delay: 0}}
YAML
expect 1 "$MUSTER" run "$work/memory.yml" --name memory
expect 0 "$MUSTER" explain memory
has out "rule cuda-oom (default): class user: stop: reduce the batch size"
expect 0 "$MUSTER" status memory -o json
has out '"cuda-oom"'

# The job's word, a site's rule, a rule that only logs.
job_file own.yml <<'YAML'
command: >-
  echo "CUDA out of memory"; test "$MUSTER_ATTEMPT" -ge 1 && exit 0; exit 42
muster:
  restart: {delay: 0}
  rules:
    - {id: watched, when: {exit_code: 42}, action: stop}
    - {id: again, when: {exit_code: 40-49, stderr_regex: memory}, action: retry}
YAML
expect 0 "$MUSTER" run "$work/own.yml" --name own
has err "note: muster.rules[0]: a rule that stops jobs begins as 'mode: log'"
expect 0 "$MUSTER" explain own
has out "rule again (job): class user; rule watched only logs: retry"
job_file site.yml <<'YAML'
policy:
  rules:
    - id: cheese
      when: {stderr_regex: out of cheese}
      action: stop
      mode: enforce
      advice: buy some
YAML
job_file three.yml <<'YAML'
command: echo out of cheese; exit 3
YAML
expect 3 "$MUSTER" run "$work/three.yml" --name three --cluster "$work/site.yml"
expect 0 "$MUSTER" explain three
has out "rule cheese (site): class user: stop: buy some"

# A broken pattern is refused with its place.
job_file broken.yml <<'YAML'
command: "true"
muster:
  rules:
    - when: {stderr_regex: 'out of (memory'}
      action: retry
YAML
expect 90 "$MUSTER" run "$work/broken.yml"
has err "broken.yml:4:28: error: muster.rules[0].when.stderr_regex: not a regular expression"

expect 0 "$MUSTER" policy show "$work/own.yml" --cluster "$work/site.yml" -o json
has out '"id": "watched"'
has out '"id": "cheese"'
has out '"id": "gpu-ecc"'
expect 0 "$MUSTER" policy show three
has out "buy some"
expect 1 "$MUSTER" policy show no-such-job

printf 'step 1\nmy tokens are out of cheese\n' >"$work/rank.log"
expect 0 "$MUSTER" policy test "$work/site.yml" --log "$work/rank.log"
has out "rule cheese (site): stop: buy some"
has out "| my tokens are out of cheese"
expect 0 "$MUSTER" policy test --log "$work/rank.log" --signal SIGSEGV -o json --query rule.id
has out '"segfault"'
expect 0 "$MUSTER" policy test --exit-code 9 --log "$work/rank.log"
has out "no rule decides"
expect 2 "$MUSTER" policy test
expect 2 "$MUSTER" policy test --log "$work/rank.log" --exit-code 256
expect 1 "$MUSTER" policy test --log "$work/no-such.log"

# The recorded runs: what happened is what the rules of today say, and others say otherwise.
expect 0 "$MUSTER" policy test --replay memory own -o json
grep -q '"differs": true' "$work/out" && fail "the recorded rules differ from themselves"
has out '"recorded": "restarted on the same nodes after 0 s"'
expect 0 "$MUSTER" policy test "$work/own.yml" --replay three
has out "ended with 3"
job_file other.yml <<'YAML'
policy:
  rules: [{id: patient, when: {exit_code: 3}, action: retry}]
YAML
expect 0 "$MUSTER" policy test "$work/other.yml" --replay three -o json
has out '"differs": true'
has out '"recorded": "ended with 3"'
has out '"rule": "patient"'
