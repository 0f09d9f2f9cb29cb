#!/usr/bin/env bash
# Seven hosts, two of them reached directly and the others through these: a job runs over the tree,
# an agent, a relay and a host on the way die, and not a byte of any rank is lost or said twice.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 7 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
export MUSTER_CONFIG="$cluster_dir/cluster.yml"
target=$(sed -n '/^compute:/{n;s/^ *\([^:]*\):.*/\1/p}' "$MUSTER_CONFIG")
settings='\1connect: {fan_out: {above: 3, radix: 2, silence: 3s}}\n\1lease: 20s\n\1unreachable: 8s'
sed -i "s/^\( *\)nodes:/$settings\n&/" "$MUSTER_CONFIG"
address() { sed -n "s/.*name: $1,.*host: \([0-9.]*\).*/\1/p" "$MUSTER_CONFIG"; }
gateway=$(address h01 | sed 's/\.[0-9]*$//')
here=$(ip -4 -o address | awk '{print $4}' | sed 's#/.*##' | grep "^$gateway\.")

on() { local host=$1; shift; "$MUSTER" sandbox exec --dir "$cluster_dir" "$host" -- "$@"; }
logins_from_here() {
  on "$1" ss -Htn state established sport = :22 | awk '{print $4}' | grep -cF "$here:"
}
direct() {
  for host in h01 h02 h03 h04 h05 h06 h07; do
    [ "$(logins_from_here $host)" -eq 0 ] || echo $host
  done
}
# process_on HOST NAME: of this test's sandbox, which shares its process numbers with nobody.
process_on() { on "$1" pgrep -x "$2" | head -n 1; }
is_gone() { ! on "$1" kill -0 "$2" 2>/dev/null; }

job_file ticks.yml <<YAML
command: n=0; while [ \$n -lt \$TICKS ]; do n=\$((n + 1)); echo "tick \$n"; sleep 0.02; done
compute: $target
environment_variables: {TICKS: "400"}
resources: {instance_count: 7}
YAML
log() { echo "$MUSTER_HOME/jobs/$1/attempt-0/rank-$2.log"; }
reached() {  # reached JOB TICK [RANKS]: by all of them
  for rank in $(seq 0 $((${3:-7} - 1))); do
    grep -qsx "tick $2" "$(log "$1" $rank)" || return 1
  done
}
whole() {
  expect 0 "$MUSTER" logs -f "$1"
  for rank in 0 1 2 3 4 5 6; do
    seq -f 'tick %.0f' 400 | cmp -s - "$(log "$1" $rank)" || fail "rank $rank of $1: other lines"
  done
  [ ! -e "$MUSTER_HOME/jobs/$1/attempt-1" ] || fail "$1 was started again"
}

# Two hosts are reached from here, the others through them. These have no keys: they ask here for
# signatures.
expect 0 "$MUSTER" submit "$work/ticks.yml" --name calm
until_true 60 reached calm 5
[ "$(direct | wc -l)" -eq 2 ] || fail "reached directly: $(direct)"
expect 0 "$MUSTER" nodes
[ "$(grep -c ' up through h0' "$work/out")" -eq 5 ] || fail "not shown which way nodes are reached"
for host in $(direct); do
  [ "$(logins_from_here $host)" -eq 1 ] || fail "more than one login to $host"
  on $host sh -c '! ls /home/sandbox/.ssh/id_*' >/dev/null 2>&1 || fail "$host has a key"
done
whole calm

# A relay dies: the hosts behind it are reached another way, the ranks do not notice.
expect 0 "$MUSTER" submit "$work/ticks.yml" --name rough
until_true 60 reached rough 5
# find_inner [BUT]: $inner, another host than BUT that others are reached through now; its $relay.
on_the_way() { "$MUSTER" nodes | sed -n 's/.* up through \(h0[1-7]\).*/\1/p' | sort -u; }
find_inner() {
  for inner in $(on_the_way); do
    relay=$(process_on "$inner" muster-relay)
    [ "$inner" = "${1:-}" ] || [ -z "$relay" ] || return 0
  done
  return 1
}
until_true 20 find_inner
on "$inner" kill -9 "$relay"
until_true 20 is_gone "$inner" "$relay"
whole rough

# The agent of a host on the way dies, and with it that host's rank: the attempt ends and the next
# one begins, over the connections of all other hosts.
sed 's/instance_count: 7/&}\nmuster: {restart: {attempts: 3, delay: 0}/' "$work/ticks.yml" \
  >"$work/again.yml"
expect 0 "$MUSTER" submit "$work/again.yml" --name agent
until_true 60 reached agent 5
until_true 20 find_inner
on "$inner" kill -9 "$(process_on "$inner" muster-agent)"
expect 0 "$MUSTER" logs -f agent
[ "$(process_on "$inner" muster-relay)" = "$relay" ] || fail "the relay of $inner went as well"
counts_up() {  # counts_up FILE: a run of ticks from the first, none lost or twice
  seq -f 'tick %.0f' 400 | head -n "$(wc -l <"$1")" | cmp -s - "$1" || fail "$1: other lines"
}
for rank in 0 1 2 3 4 5 6; do
  counts_up "$MUSTER_HOME/jobs/agent/attempt-0/rank-$rank.log"
  counts_up "$MUSTER_HOME/jobs/agent/attempt-1/rank-$rank.log"
  [ "$(wc -l <"$MUSTER_HOME/jobs/agent/attempt-1/rank-$rank.log")" -eq 400 ] || fail "not all"
done

# A relay that stands still: its hosts are reached by another way, long before their leases end.
expect 0 "$MUSTER" submit "$work/ticks.yml" --name still
until_true 60 reached still 5
until_true 20 find_inner
on "$inner" kill -STOP "$relay"
whole still
on "$inner" kill -CONT "$relay" 2>/dev/null
until_true 20 is_gone "$inner" "$relay"

# A host on the way is powered off. Its own rank is lost; those behind it are there for the next
# attempt, which another host joins. That one is drained until then, and leads to nobody.
leaf=$(printf 'h0%d\n' 7 6 5 4 3 2 1 | grep -vxF "$(on_the_way)" | head -n 1)
expect 0 "$MUSTER" drain "$leaf" --reason "kept for later"
sed -e 's/instance_count: 7/instance_count: 6/' "$work/again.yml" >"$work/six.yml"
expect 0 "$MUSTER" submit "$work/six.yml" --name off
until_true 60 reached off 5 6
until_true 20 find_inner "$leaf"
expect 0 "$MUSTER" undrain "$leaf"
expect 0 "$MUSTER" sandbox crash --dir "$cluster_dir" "$inner"
expect 0 "$MUSTER" logs -f off
for rank in 0 1 2 3 4 5; do
  counts_up "$MUSTER_HOME/jobs/off/attempt-0/rank-$rank.log"
  [ "$(wc -l <"$MUSTER_HOME/jobs/off/attempt-1/rank-$rank.log")" -eq 400 ] || fail "not all"
done
expect 0 "$MUSTER" sandbox boot --dir "$cluster_dir" "$inner"

# A host key that changed is refused on the way through others as it is directly; a host that does
# not answer holds up nobody. Both are said of these hosts, the rest of the cluster works.
kill $(controller_pids); until_true 10 no_controller
ssh-keygen -q -t ed25519 -N '' -f "$work/stranger"
awk -v host="$(address h07)" -v key="$(cut -d' ' -f2 "$work/stranger.pub")" \
  'index($1, host) { print $1, "ssh-ed25519", key; next } { print }' \
  "$MUSTER_HOME/known_hosts" >"$work/changed" && cp "$work/changed" "$MUSTER_HOME/known_hosts"
sed 's/"400"/"5"/' "$work/ticks.yml" >"$work/short.yml"
expect 92 "$MUSTER" run "$work/short.yml" --name changed
has err "h07"
has err "host key"
