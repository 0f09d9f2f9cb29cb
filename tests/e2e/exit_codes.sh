#!/usr/bin/env bash
# The exit code of `run` is the job's.
. "$(dirname "$0")/harness.sh"

job_file true.yml <<'YAML'
command: "true"
compute: azureml:local-cluster
resources: {instance_count: 2}
YAML
expect 0 "$MUSTER" run "$work/true.yml"

job_file three.yml <<'YAML'
command: echo out of cheese; exit 3
muster: {restart: {attempts: 0}}
YAML
expect 3 "$MUSTER" run "$work/three.yml" --name three
"$MUSTER" explain three >"$work/out" || fail "explain"
has out "out of cheese"

job_file reserved.yml <<'YAML'
command: exit 95
muster: {restart: {attempts: 0}}
YAML
expect 1 "$MUSTER" run "$work/reserved.yml"

job_file signal.yml <<'YAML'
command: kill -SEGV $$
muster: {restart: {attempts: 0}}
YAML
expect 139 "$MUSTER" run "$work/signal.yml"

job_file missing.yml <<'YAML'
command: no-such-program --flag
YAML
expect 127 "$MUSTER" run "$work/missing.yml"

job_file interpreter.yml <<'YAML'
command: python9.9 train.py
YAML
expect 91 "$MUSTER" run "$work/interpreter.yml"
has err "python9.9"

# The same early exit twice is a user error: no third try.
job_file early.yml <<'YAML'
command: echo "attempt $MUSTER_ATTEMPT has no data" >&2; exit 7
muster: {restart: {delay: 0}}
YAML
expect 93 "$MUSTER" run "$work/early.yml" --name early
[ -d "$MUSTER_HOME/jobs/early/attempt-1" ] || fail "no second attempt"
[ ! -d "$MUSTER_HOME/jobs/early/attempt-2" ] || fail "a third attempt"
has err "attempt 1 has no data"

# What fails once and then works ends well.
job_file heals.yml <<'YAML'
command: test "$MUSTER_ATTEMPT" = 1
muster: {restart: {delay: 0}}
YAML
expect 0 "$MUSTER" run "$work/heals.yml"

job_file limit.yml <<'YAML'
command: sleep 600
limits: {timeout: 1}
YAML
expect 98 "$MUSTER" run "$work/limit.yml"

printf 'command: 1\ncomand: 2\nresources: {instance_cout: 2}\n' >"$work/bad.yml"
expect 90 "$MUSTER" run "$work/bad.yml"
has err "bad.yml:2:1"
has err "did you mean 'instance_count'"
expect 90 "$MUSTER" run "$work/absent.yml"
