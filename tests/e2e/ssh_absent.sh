#!/usr/bin/env bash
# Hosts that do not answer: who waits hears within seconds which, why and what goes on; another host
# takes the place; vain tries are told once; a link that is silent shows before it counts as lost.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 3 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
export MUSTER_CONFIG="$cluster_dir/cluster.yml"
power() { expect 0 "$MUSTER" sandbox "$1" --dir "$cluster_dir" "$2"; }
# second_of JOB WORDS: of the first line of its explanation with them, whole seconds since it began.
second_of() {
  "$MUSTER" explain "$1" | grep -F -- "$2" | head -n 1 | sed -n 's/^+\([0-9]*\)[.0-9]* s .*/\1/p'
}
before() {  # before SECOND JOB WORDS
  local at; at=$(second_of "$2" "$3")
  [ -n "$at" ] && [ "$at" -lt "$1" ] && return
  "$MUSTER" explain "$2"
  fail "'$3' at '$at', not before $1 s"
}

# The first host is off: the job is allocated another one within 2 s.
power crash h01
job_file one.yml <<'YAML'
command: echo hello from $(uname -n)
compute: sandbox
YAML
expect 0 "$MUSTER" run "$work/one.yml" --name one
grep -q "hello from h0[23]" "$work/out" || fail "it ran elsewhere"
has err "h01 "
before 3 one " that answer; h01 has not answered for 2 s"

# Nobody can take its place: that is told at once, and the same vain try is told once.
job_file three.yml <<'YAML'
command: "true"
compute: sandbox
resources: {instance_count: 3}
muster: {nodes: {wait: 30s}}
YAML
expect 92 "$MUSTER" run "$work/three.yml" --name three
before 10 three "no other node of sandbox is free"
said_once() {
  [ "$(grep -c "$1" "$work/err")" -eq 1 ] || { cat "$work/err"; fail "not once: $1"; }
}
said_once 'given up before it started'
[ "$(grep -c ' allocated ' "$work/err")" -le 1 ] || { cat "$work/err"; fail "placed again"; }
grep -Eq 'timed out after 30.* and [2-9] tries: ' "$work/err" \
  || { cat "$work/err"; fail "no count"; }
power boot h01

# A link falls silent: shown long before it is lost, and gone when the host is back.
begin_long_job long "$MUSTER_CONFIG" sandbox h02
shows() { "$MUSTER" "$@" >"$work/shown" && grep -q "no word for" "$work/shown"; }
shows_not() { ! shows "$@"; }
expect 0 "$MUSTER" status long
! grep -q "no word" "$work/out" || fail "silent without cause"
power partition h02
until_true 15 shows status long
grep -Eq '^silent +h02: no word for [4-6] s; declared lost at 18 s' "$work/shown" \
  || { cat "$work/shown"; fail "not told in time"; }
until_true 5 shows status
grep -Eq '^h02 +no word for ' "$work/shown" || { cat "$work/shown"; fail "not in the table"; }
power heal h02
until_true 30 shows_not status long
expect 0 "$MUSTER" cancel long
