#!/usr/bin/env bash
# What can be wrong with a host is named, with the right exit code, and healthy hosts take over.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 3 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
good="$cluster_dir/cluster.yml"
user=$(sed -n 's/^ *user: *//p' "$good" | head -n 1)
key=$(sed -n 's/^ *identity_file: *//p' "$good" | head -n 1)
address() { sed -n "s/.*name: h0$1,.*host: \([0-9.]*\).*/\1/p" "$good"; }
[ -n "$(address 1)" ] || { cat "$good"; fail "the fixture's cluster file has another form"; }

# one_host KEY HOST: a cluster file with one node
one_host() {
  cat >"$work/one.yml" <<YAML
compute:
  lab: {transport: ssh, user: $user, identity_file: $1, nodes: [{name: only, host: $2}]}
YAML
}
job_file hello.yml <<'YAML'
command: echo hello from $(uname -n)
compute: lab
YAML
run() { "$MUSTER" run "$work/hello.yml" --cluster "$work/one.yml" "$@"; }

one_host "$key" "$(address 1)"
expect 0 run
has out "hello from h01"

# The first contact with a host is told once, with the fingerprint; `refuse` lets no unknown host
# in.
fingerprint=$(ssh-keygen -l -f "$MUSTER_HOME/known_hosts" | grep -o 'SHA256:[^ ]*')
has err "first contact with only ($(address 1)): its ED25519 key $fingerprint is recorded in"
expect 0 run
! grep -q "first contact" "$work/err" || fail "the first contact was told twice"
one_host "$key" "$(address 2)"
sed -i "s#transport: ssh,#transport: ssh, connect: {unknown_hosts: refuse},#" "$work/one.yml"
expect 92 run
has err "ED25519 key SHA256:"
has err "unknown_hosts: refuse"
ssh-keyscan -t ed25519 "$(address 2)" >>"$MUSTER_HOME/known_hosts" 2>/dev/null
expect 0 run

one_host "$key" no-such-host.invalid
expect 92 run
has err "no-such-host.invalid"

ssh-keygen -q -t ed25519 -N '' -f "$work/stranger"
one_host "$work/stranger" "$(address 2)"
SSH_AUTH_SOCK='' expect 92 run
has err "key"

# A host key that changed is never connected to.
one_host "$key" "$(address 3)"
expect 0 run
kill $(controller_pids); until_true 10 no_controller
[ -s "$MUSTER_HOME/known_hosts" ] || fail "the host key was not pinned"
awk -v key="$(cut -d' ' -f2 "$work/stranger.pub")" '{ print $1, "ssh-ed25519", key }' \
  "$MUSTER_HOME/known_hosts" >"$work/changed" && cp "$work/changed" "$MUSTER_HOME/known_hosts"
expect 92 run
has err "host key"
rm "$MUSTER_HOME/known_hosts"

# A full disk on the node.
one_host "$key" "$(address 2)"
sed -i "s#transport: ssh,#transport: ssh, remote_home: /tmp/full/muster,#" "$work/one.yml"
"$MUSTER" sandbox exec --dir "$cluster_dir" h02 -- sh -c \
  "mkdir -p /tmp/full && mount -t tmpfs -o size=64k tmpfs /tmp/full && chmod 1777 /tmp/full" \
  || fail "mount"
expect 92 run
has err "space"

# A host that dies in the middle: its attempt is given up, another host takes its place.
cat >"$work/lab.yml" <<YAML
compute:
  lab:
    transport: ssh
    user: $user
    identity_file: $key
    lease: 6s
    unreachable: 4s
    nodes:
      - {name: h01, host: $(address 1)}
      - {name: h02, host: $(address 2)}
      - {name: h03, host: $(address 3)}
YAML
job_file lost.yml <<'YAML'
command: echo "attempt $MUSTER_ATTEMPT on $(uname -n)"; test "$MUSTER_ATTEMPT" != 0 || sleep 600
compute: lab
resources: {instance_count: 2}
distribution: {type: pytorch}
YAML
expect 0 "$MUSTER" submit "$work/lost.yml" --cluster "$work/lab.yml" --name lost
until_true 30 grep -qs "attempt 0" "$MUSTER_HOME/jobs/lost/attempt-0/rank-1.log"
"$MUSTER" sandbox partition --dir "$cluster_dir" h02 || fail "partition"
expect 0 "$MUSTER" logs -f lost
"$MUSTER" status lost -o json >"$work/out"
has out '"Completed"'
has out '"h03"'
"$MUSTER" explain lost >"$work/out"
has out "h02"
