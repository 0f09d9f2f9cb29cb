#!/usr/bin/env bash
# Images from a registry with logins: pinned at submission, pulled once for all nodes of a machine,
# started while the registry is down, refused with its own words; and no login anywhere it could be
# read. The registry is Debian's, the images are made here, of busybox alone.
. "$(dirname "$0")/harness.sh"
for program in podman skopeo docker-registry perl; do
  command -v "$program" >/dev/null || skip "no $program"
done
[ -x /bin/busybox ] || skip "no busybox"
port=$((16800 + $$ % 90))
host=127.0.0.1:$port
password=pw$$-$RANDOM$RANDOM
login=$(printf 'ann:%s' "$password" | base64 -w0)
export HOME=$work/user
mkdir -p "$HOME/.config/containers" "$HOME/.docker" "$work/image/bin" "$work/image/tmp"
unset REGISTRY_AUTH_FILE DOCKER_CONFIG || true
printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$host" \
  >"$HOME/.config/containers/registries.conf"
log_in() { printf '{"auths": {"%s": {"auth": "%s"}, "other.io": {"auth": "b3RoZXI="}}}' \
  "$host" "$1" >"$HOME/.docker/config.json"; }
log_in "$login"

cat >"$work/registry.yml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: $host}
auth: {htpasswd: {realm: lab, path: $work/users}}
YAML
perl -e 'print "ann:", crypt($ARGV[0], q($2y$05$abcdefghijklmnopqrstuu))' "$password" >"$work/users"
registry=""
seeker=""
registry_up() {
  docker-registry serve "$work/registry.yml" >>"$work/registry.log" 2>&1 &
  registry=$!
  until_true 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null
}
registry_down() { kill "$registry"; wait "$registry" 2>/dev/null; registry=""; }
names=()
forget() {
  [ -z "$registry" ] || kill "$registry"
  [ -z "$seeker" ] || kill "$seeker"
  podman rmi --force "${names[@]}" >/dev/null 2>&1
  podman images --all --format '{{.Repository}} {{.ID}}' | grep "^$host/" | cut -d' ' -f2 |
    xargs -r podman rmi --force >/dev/null 2>&1
}
trap 'code=$?; forget; (exit $code); finish' EXIT

cp /bin/busybox "$work/image/bin/"
for word in sh cat echo sleep env; do ln -s busybox "$work/image/bin/$word"; done
offer() { # NAME: a new image in the registry, and not here
  echo "mark of $1 $RANDOM" >"$work/image/mark"
  tar -C "$work/image" -c . | podman import - "localhost/muster-test-$$:1" >"$work/import" 2>&1 ||
    { cat "$work/import"; skip "podman cannot import an image here"; }
  podman push --quiet "localhost/muster-test-$$:1" "docker://$host/lab/$1" >"$work/import" 2>&1 ||
    { cat "$work/import"; fail "push"; }
  podman rmi --force "localhost/muster-test-$$:1" >/dev/null 2>&1
  names+=("$host/lab/$1")
}
registry_up
offer tiny:1
podman run --rm --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
  --entrypoint cat "$host/lab/tiny:1" /mark >"$work/import" 2>&1 ||
  { cat "$work/import"; skip "podman runs nothing here"; }
podman rmi --force "$host/lab/tiny:1" >/dev/null 2>&1

mkdir "$work/code"
echo 'cat /mark; echo "rank $RANK"' >"$work/code/rank.sh"
job() { # FILE IMAGE [MORE]
  cat >"$work/$1.yml" <<YAML
command: sh rank.sh
code: $work/code
environment: {image: "$2"}
compute: local-cluster
resources: {instance_count: 2, shm_size: 64m}
distribution: {type: pytorch, process_count_per_instance: 1}
muster: {restart: {attempts: 0}, reschedule: {attempts: 0}}
YAML
}
in_spec() { tr -d ' \n' <"$MUSTER_HOME/jobs/$1/spec.json" | grep -o "$2" | head -n 1; } # JOB WHAT
digest_of() { in_spec "$1" '"digest":"sha256:[0-9a-f]*"' | cut -d'"' -f4; } # JOB

# --- pinned, pulled once, run by both nodes; the login is nowhere
printf '%s\n' "$login" "$password" >"$work/secrets"
(while [ -d "$work" ] && [ ! -e "$work/over" ]; do
  cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null |
    grep -aqFf "$work/secrets" 2>/dev/null && touch "$work/leak"
done) &
seeker=$!
job first "$host/lab/tiny:1"
expect 0 "$MUSTER" plan "$work/first.yml"
has out "$host/lab/tiny@sha256:"; has out "MiB"
expect 0 "$MUSTER" run "$work/first.yml" --name first
has out "mark of tiny:1"; has out "rank 0"; has out "rank 1"
touch "$work/over"; wait "$seeker"; seeker=""
[ ! -e "$work/leak" ] || fail "the login was in the words or variables of a process"
digest=$(digest_of first)
names+=("localhost/muster/image:${digest#sha256:}")
[ "$(skopeo inspect --format '{{.Digest}}' "docker://$host/lab/tiny:1")" = "$digest" ] ||
  fail "digest: $digest"
layers=$(grep "GET /v2/lab/tiny/blobs/" "$work/registry.log" | grep -c 'podman\|containers/')
[ "$layers" -le 8 ] || fail "$layers parts were fetched"
[ "$(stat -c %a "$MUSTER_HOME/jobs/first/registry.json")" = 600 ] || fail "mode of the login"
grep -q other "$MUSTER_HOME/jobs/first/registry.json" && fail "a login at another registry"
grep -rlaFf "$work/secrets" "$MUSTER_HOME" | grep -v '/registry.json$' &&
  fail "the login is in these files"
"$MUSTER" job show --name first -o json | grep -qFf "$work/secrets" && fail "show tells the login"
[ -z "$(find "$MUSTER_HOME" -name '*.part')" ] || fail "parts of a pull are left"

# --- the registry's own words, before there is a job
log_in "$(printf 'ann:wrong' | base64)"
expect 90 "$MUSTER" submit "$work/first.yml" --name wrong
has err "$host"; has err "unauthorized"
log_in "$login"
job missing "$host/lab/none:1"
expect 90 "$MUSTER" submit "$work/missing.yml" --name missing; has err "manifest unknown"

# --- allowed, and by another name
cat >"$work/site.yml" <<YAML
containers: {allow: ["hub.example/*"]}
mirrors: {hub.example/: $host/}
YAML
expect 90 "$MUSTER" validate "$work/first.yml" --cluster "$work/site.yml"
has err "containers.allow"
job named "hub.example/lab/tiny:1"
expect 0 "$MUSTER" run "$work/named.yml" --cluster "$work/site.yml" --name named
has out "mark of tiny:1"; [ "$(digest_of named)" = "$digest" ] || fail "digest by a mirror"

# --- built here, once for each content, by what it begins with
build() { # FILE KEY: VALUE
  printf 'command: made\nenvironment: {%s}\ncompute: local\n' "$2" >"$work/$1.yml"
}
mkdir "$work/context"
cat >"$work/context/Dockerfile" <<DOCKER
FROM $host/lab/tiny:1
COPY made /bin/
RUN cat /bin/made >/copied
DOCKER
printf '#!/bin/sh\necho "made by a build"; cat /mark\n' >"$work/context/made"
chmod 755 "$work/context/made"
build build "build: {path: $work/context}"
expect 0 "$MUSTER" run "$work/build.yml" --name build
has out "made by a build"; has out "mark of tiny:1"; has err "image is built"
names+=("$(in_spec build 'localhost/muster/build:[0-9a-f]*')")
names+=("localhost/muster/image:$(digest_of build | cut -d: -f2)")
expect 0 "$MUSTER" run "$work/build.yml" --name build-again
has out "made by a build"; grep -q "image is built" "$work/err" && fail "it was built twice"
printf 'RUN echo out of; exit 3\n' >>"$work/context/Dockerfile"
expect 90 "$MUSTER" submit "$work/build.yml" --name build-fails; has err "out of"
# A conda that makes the prefix, as a real one does.
cat >"$work/image/bin/conda" <<'CONDA'
#!/bin/sh
mkdir -p "$4/bin"
{ echo '#!/bin/sh'; echo "echo made by conda, of"; sed 's/^/echo /' "$6"; } >"$4/bin/made"
chmod 755 "$4/bin/made"
CONDA
chmod 755 "$work/image/bin/conda"
for word in mkdir sed chmod; do ln -s busybox "$work/image/bin/$word"; done
offer conda:1
printf 'name: lab\n' >"$work/conda.yml"
printf 'name: made-env\nimage: %s\nconda_file: conda.yml\n' "$host/lab/conda:1" >"$work/env.yml"
expect 0 "$MUSTER" environment create --file "$work/env.yml"; has out "made-env:1"
printf "command: made\nenvironment: azureml:made-env@latest\ncompute: local\n" \
  >"$work/conda-job.yml"
expect 0 "$MUSTER" run "$work/conda-job.yml" --name conda
has out "made by conda, of"; has out "name: lab"
names+=("$(in_spec conda 'localhost/muster/build:[0-9a-f]*')")
names+=("localhost/muster/image:$(digest_of conda | cut -d: -f2)")

# --- nodes that cannot reach the registry get the image from here, unless the site forbids it
offer unreached:1
offer never:1
mkdir "$work/bin"
cat >"$work/bin/podman" <<SH
#!/bin/sh
case "\$*" in
pull*dir:*) ;;
pull*) export CONTAINERS_REGISTRIES_CONF=$work/dead.conf ;;
esac
exec $(command -v podman) "\$@"
SH
chmod 755 "$work/bin/podman"
printf '[[registry]]\nprefix = "%s"\nlocation = "127.0.0.1:1"\ninsecure = true\n' "$host" \
  >"$work/dead.conf"
job unreached "$host/lab/unreached:1"
job never "$host/lab/never:1"
printf 'containers: {pull: nodes}\n' >"$work/nodes.yml"
(
  export MUSTER_HOME="$work/home-away" PATH="$work/bin:$PATH"
  trap 'status=$?; for pid in $(agent_pids) $(controller_pids); do kill -9 "$pid"; done
    exit "$status"' EXIT
  expect 0 "$MUSTER" plan "$work/unreached.yml"
  has out "pulled from $host by each node that lacks it"; has out "local-0, local-1: not there;"
  expect 0 "$MUSTER" run "$work/unreached.yml" --name unreached
  has out "mark of unreached:1"; has out "rank 1"
  expect 0 "$MUSTER" plan "$work/unreached.yml"; has out "local-0, local-1: there already"
  "$MUSTER" run "$work/never.yml" --cluster "$work/nodes.yml" --name never >"$work/out" 2>&1 &&
    fail "a pull from nowhere"
  has out "connection refused"
  grep -rlaFf "$work/secrets" "$MUSTER_HOME" | grep -v '/registry.json$' && fail "a login"
  exit 0
) || exit 1
names+=("localhost/muster/image:$(MUSTER_HOME=$work/home-away digest_of unreached | cut -d: -f2)")

# --- brought by the submitter, for nodes that do not see the registry
offer brought:1
printf 'containers: {pull: controller}\n' >"$work/bring.yml"
job brought "$host/lab/brought:1"
expect 0 "$MUSTER" submit "$work/brought.yml" --cluster "$work/bring.yml" --name brought
registry_down
expect 0 "$MUSTER" wait brought
expect 0 "$MUSTER" logs brought; has out "mark of brought:1"
names+=("localhost/muster/image:$(digest_of brought | cut -d: -f2)")

# --- the registry is down: what is on the nodes starts, what is not fails and names it
expect 0 "$MUSTER" run "$work/first.yml" --name again
has out "mark of tiny:1"; has err "the digest of $host/lab/tiny:1 is not known"
job fixed "$host/lab/tiny@$digest"
expect 0 "$MUSTER" run "$work/fixed.yml" --name fixed; has out "mark of tiny:1"
job absent "$host/lab/absent:1"
begin=$SECONDS
"$MUSTER" run "$work/absent.yml" --name absent >"$work/out" 2>&1 && fail "an image that is nowhere"
[ $((SECONDS - begin)) -lt 30 ] || fail "it took $((SECONDS - begin)) s"
has out "from the registry $host"; has out "connection refused"
