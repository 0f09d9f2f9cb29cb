#!/usr/bin/env bash
# Hosts over ssh: a spare replaces one that is cut off, before its lease ends and without a login; a
# host that says by a file that it goes is left in time, and used again when the file is gone.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
command -v python3 >/dev/null || skip "needs python3"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 4 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
good="$cluster_dir/cluster.yml"
user=$(sed -n 's/^ *user: *//p' "$good" | head -n 1)
key=$(sed -n 's/^ *identity_file: *//p' "$good" | head -n 1)
address() { sed -n "s/.*name: h0$1,.*host: \([0-9.]*\).*/\1/p" "$good"; }
on() { "$MUSTER" sandbox exec --dir "$cluster_dir" "$1" -- sh -c "$2"; }

# A directory that each host has for itself.
notices=/tmp/muster-notices-$$
for host in h01 h02 h03 h04; do
  on "$host" "mkdir -p $notices && mount -t tmpfs tmpfs $notices && chmod 755 $notices" \
    || fail "mount on $host"
done
cat >"$work/lab.yml" <<YAML
compute:
  lab:
    user: $user
    identity_file: $key
    lease: 6s
    notice_file: $notices/leave
    nodes:
      - {name: h01, host: $(address 1)}
      - {name: h02, host: $(address 2)}
      - {name: h03, host: $(address 3)}
      - {name: h04, host: $(address 4)}
YAML
job_file job.yml <<'YAML'
command: |
  echo "attempt $MUSTER_ATTEMPT: node rank $NODE_RANK on $(uname -n)"
  test "$MUSTER_ATTEMPT" -ge 1 && exit 0
  trap 'echo "told to stop"; exit 3' TERM
  while :; do sleep 0.1; done
compute: lab
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 1}
muster: {nodes: {spares: 1}, restart: {delay: 0}, stop: {grace: 5s}}
YAML

count() { python3 -c "
import sqlite3
store = sqlite3.connect('file:$MUSTER_HOME/muster.db?mode=ro', uri=True)
print(store.execute('select count(*) from record where kind = \"$1\" and node = \"$2\"')
      .fetchone()[0])"; }
has_run() { grep -qs "attempt 0" "$MUSTER_HOME/jobs/$1/attempt-0/rank-1.log"; }
is_ready() { has_run "$1" && [ "$(count node_staged "$2")" -ge 1 ]; }
run() {  # NAME SPARE: until it runs and its spare is ready
  expect 0 "$MUSTER" submit "$work/job.yml" --cluster "$work/lab.yml" --name "$1"
  until_true 60 is_ready "$1" "$2"
}
ends() { expect 0 "$MUSTER" logs -f "$1"; cp "$work/out" "$work/log"; }

run cut h03
"$MUSTER" sandbox partition --dir "$cluster_dir" h02 || fail "partition"
ends cut
has log "attempt 1: node rank 0 on h01"
has log "attempt 1: node rank 1 on h03"
[ "$(count link_up h01) $(count link_up h03)" = "1 1" ] || fail "a node was connected again"
expect 0 "$MUSTER" explain cut
has out "h02 was lost for 5.4 s"  # nine tenths of its lease
has out "spare h03 instead of h02"
"$MUSTER" sandbox heal --dir "$cluster_dir" h02 || fail "heal"

run goes h04
on h03 "echo 60 >$notices/leave"
ends goes
has log "told to stop"
has log "attempt 1: node rank 0 on h01"
has log "attempt 1: node rank 1 on h04"
expect 0 "$MUSTER" explain goes
has out "(notice by $notices/leave)"
has out "class preempted: retry"
expect 0 "$MUSTER" nodes --cluster "$work/lab.yml"
has out "h03 leaves in"
on h03 "rm $notices/leave"
stays() { ! "$MUSTER" nodes --cluster "$work/lab.yml" | grep -q "h03 leaves in"; }
until_true 10 stays
