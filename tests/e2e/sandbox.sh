#!/usr/bin/env bash
# `muster-sandbox`, here by its old name: a first cluster. Up, a job over ssh, a host broken and
# repaired, down.
. "$(dirname "$0")/harness.sh"

# Without root the words say what to type.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  cp "$MUSTER" "$MUSTER-sandbox" "$work"; chmod 755 "$work" "$work/muster" "$work/muster-sandbox"
  expect 1 setpriv --reuid 65534 --regid 65534 --clear-groups env MUSTER_HOME="$work/x" \
    "$work/muster" sandbox up --hosts 3
  has err "sudo $work/muster-sandbox up --hosts 3"
  # What somebody else than root and muster's owner may have put there is not started.
  refused() { expect 1 "$work/muster" sandbox list; has err "cannot start muster-sandbox: $1"; }
  chown 65533 "$work/muster-sandbox"
  refused "$work/muster-sandbox is a program of user"
  chown 0 "$work/muster-sandbox"; chgrp 65533 "$work/muster-sandbox"
  chmod 775 "$work/muster-sandbox"
  refused "$work/muster-sandbox may be written to by others (mode 0775)"
  chmod 755 "$work/muster-sandbox"; chmod 777 "$work"
  refused "$work may be written to by others (mode 0777)"
  chmod 755 "$work"
  mv "$work/muster-sandbox" "$work/it"; ln -s it "$work/muster-sandbox"
  refused "$work/muster-sandbox is a link or no file"
  rm "$work/muster-sandbox"; mv "$work/it" "$work/muster-sandbox"
  # Where it is missing, that is what is said.
  mv "$work/muster-sandbox" "$work/elsewhere"
  expect 1 "$work/muster" sandbox list
  has err "install muster-sandbox beside muster"
fi
expect 2 "$MUSTER" sandbox up --hosts 0
has err "expected 1 to 1000"
expect 1 "$MUSTER" --color never -o json sandbox list --dir "$work/none"
has err "there is no sandbox in $work/none"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"

cluster_dir="$work/box"
chmod 755 "$work"
"$MUSTER" sandbox up --hosts 3 --user sandboxe2e --dir "$cluster_dir" -o json >"$work/out" \
  2>"$work/err" || { cat "$work/err"; skip "needs network namespaces"; }
has out "\"cluster_file\": \"$cluster_dir/cluster.yml\""
has out '"name": "h03"'
expect 1 "$MUSTER" sandbox up --hosts 3 --dir "$cluster_dir"
has err "there is a sandbox in"

# A job that asks for the sandbox runs there.
job_file names.yml <<'YAML'
command: echo "node $NODE_RANK is $(uname -n)"
compute: sandbox
resources: {instance_count: 3}
YAML
expect 0 "$MUSTER" run "$work/names.yml" --cluster "$cluster_dir/cluster.yml"
has out "node 2 is h03"

# The exit code of a command is that of exec.
expect 7 "$MUSTER" sandbox exec --dir "$cluster_dir" h02 -- sh -c 'exit 7'
expect 0 ssh -F "$cluster_dir/ssh_config" h02 uname -n
has out h02
expect 0 "$MUSTER" sandbox crash --dir "$cluster_dir" h02
expect 0 "$MUSTER" sandbox list --dir "$cluster_dir" --query '[1].link'
has out off
expect 1 "$MUSTER" sandbox exec --dir "$cluster_dir" h02 -- true
has err "h02 is off"
expect 0 "$MUSTER" sandbox boot --dir "$cluster_dir" h02
expect 0 ssh -F "$cluster_dir/ssh_config" h02 uname -n
expect 1 "$MUSTER" sandbox crash --dir "$cluster_dir" h04
has err "the sandbox has h01 to h03"

# Killed in the middle of up: down takes the rest away, and what is left is nothing.
expect 0 "$MUSTER" sandbox down --dir "$cluster_dir"
"$MUSTER" sandbox up --hosts 40 --user sandboxe2e --dir "$cluster_dir" >/dev/null 2>&1 &
builder=$!
until_true 10 [ -e "$cluster_dir/sandbox.json" ]
kill -9 "$builder"
wait "$builder" 2>/dev/null
expect 0 "$MUSTER" sandbox down --dir "$cluster_dir"
expect 1 "$MUSTER" sandbox down --dir "$cluster_dir"
has err "there is no sandbox in $cluster_dir"
[ ! -e "$cluster_dir" ] || fail "left behind: $(ls "$cluster_dir")"
if getent passwd sandboxe2e >"$work/out"; then cat "$work/out"; fail "the account is left"; fi
