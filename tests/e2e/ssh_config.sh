#!/usr/bin/env bash
# What people have in ~/.ssh/config, and the login shells they have: aliases with HostName, User,
# Port and IdentityFile, a jump host, strict host keys, an RSA key and nothing else, an IPv6
# address, tcsh and fish.
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root and network namespaces"
cluster_dir="$work/cluster"
"$MUSTER" sandbox up --hosts 3 --dir "$cluster_dir" --private-home >"$work/up" 2>&1 \
  || { cat "$work/up"; skip "needs root and network namespaces"; }
key="$cluster_dir/client_key"
address() { sed -n "s/.*name: h0$1,.*host: \([0-9.]*\).*/\1/p" "$cluster_dir/cluster.yml"; }
on() { local host=$1; shift; "$MUSTER" sandbox exec --dir "$cluster_dir" "$host" -- "$@"; }

# ssh reads the account's configuration, whatever HOME says: a mount namespace shows it ours.
dot_ssh=$(getent passwd root | cut -d: -f6)/.ssh
mkdir -p "$dot_ssh" "$work/ssh"
ssh-keygen -q -t rsa -N '' -f "$work/rsa" && cat "$work/rsa.pub" >>"$cluster_dir/authorized_keys"
cat >"$work/ssh/config" <<CONFIG
Include others/*
Host alias
  HostName $(address 1)
Host gate
  HostName $(address 1)
Host behind
  HostName $(address 2)
  ProxyJump gate
Host strict
  HostName $(address 3)
  StrictHostKeyChecking yes
Host strict-and-known
  HostName $(address 3)
  StrictHostKeyChecking yes
  UserKnownHostsFile $cluster_dir/known_hosts
Host rsa
  HostName $(address 3)
  IdentityFile $work/rsa
  IdentitiesOnly yes
Host gate
  UserKnownHostsFile $cluster_dir/known_hosts
Host !rsa *
  IdentityFile $key
Host *
  User sandbox
CONFIG
mkdir "$work/ssh/others"
printf 'Host port\n  HostName %s\n  Port 2222\n' "$(address 3)" >"$work/ssh/others/port"
chmod -R go= "$work/ssh"
job_file hello.yml <<'YAML'
command: echo hello from $(uname -n)
compute: lab
YAML

# run_on HOST [NODE-KEYS]: the job, on a node that is only known by that name
run_on() {
  printf 'compute:\n  lab: {transport: ssh, nodes: [{name: only, host: "%s"%s}]}\n' \
    "$1" "${2:-}" >"$work/one.yml"
  unshare --mount sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' "$work/ssh" "$dot_ssh" \
    env -u SSH_AUTH_SOCK "$MUSTER" run "$work/hello.yml" --cluster "$work/one.yml"
}
stop_controller() { kill $(controller_pids); until_true 10 no_controller; }

expect 0 run_on alias
has out "hello from h01"

on h03 /usr/sbin/sshd -f "$cluster_dir/h03/sshd_config" -p 2222 -o PidFile=none ||
  fail "second sshd"
expect 0 run_on port
has out "hello from h03"

expect 0 run_on rsa
has out "hello from h03"

# Strict: what muster pinned above is not enough.
expect 92 run_on strict
has err "StrictHostKeyChecking yes"
expect 0 run_on strict-and-known
has out "hello from h03"

# Only the first host can reach the second one.
gateway=$(ip -4 route get "$(address 2)" | sed -n 's/.* src \([0-9.]*\).*/\1/p')
bridge=$(ip -4 route get "$(address 2)" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
on h02 ip route add blackhole "$gateway/32" || fail "blackhole"
expect 0 run_on behind
has out "hello from h02"

ip -6 addr add fd6d:7573::1/64 dev "$bridge" nodad 2>"$work/up" &&
  on h01 ip -6 addr add fd6d:7573::2/64 dev eth0 nodad 2>"$work/up" && {
  stop_controller
  expect 0 run_on fd6d:7573::2
  has out "hello from h01"
} || { cat "$work/up"; echo "skipped: needs IPv6"; }

# Other login shells, also with start files that talk.
stop_controller
"$MUSTER" sandbox down --dir "$cluster_dir" >/dev/null 2>&1
for shell in tcsh fish; do
  rm -f "$MUSTER_HOME/known_hosts" # the same addresses, other hosts
  path=$(command -v "$shell") || { echo "skipped: needs $shell"; continue; }
  "$MUSTER" sandbox up --hosts 1 --dir "$cluster_dir" --user "muster$shell" >"$work/up" 2>&1
  usermod --shell "$path" "muster$shell" || fail "usermod"
  mkdir -p "$cluster_dir/home/.config/fish"
  echo 'echo Welcome to this machine' |
    tee "$cluster_dir/home/.cshrc" >"$cluster_dir/home/.config/fish/config.fish"
  chown -R "muster$shell:" "$cluster_dir/home"
  expect 0 run_on "$(address 1)" ", user: muster$shell, identity_file: $cluster_dir/client_key"
  has out "hello from h01"
  stop_controller
  "$MUSTER" sandbox down --dir "$cluster_dir" >/dev/null 2>&1
done
exit 0
