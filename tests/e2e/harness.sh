# Sourced by every end-to-end test: a state directory of its own, the real binary, checks that name
# what they wanted, and an end that leaves nothing behind. Usage: `. "$(dirname "$0")/harness.sh"`.
set -u
set -o pipefail
: "${MUSTER:?the muster executable under test}"
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-e2e-XXXXXX")
export MUSTER_HOME="$work/home"
unset MUSTER_CONFIG || true
cluster_dir=""

finish() {
  status=$?
  for pid in $(agent_pids) $(controller_pids); do kill -9 "$pid" 2>/dev/null; done
  [ -n "$cluster_dir" ] && "$MUSTER" sandbox down --dir "$cluster_dir" >/dev/null 2>&1
  if [ "$status" -ne 0 ] && [ -f "$MUSTER_HOME/controller.log" ]; then
    echo "--- controller.log"; tail -n 20 "$MUSTER_HOME/controller.log"
  fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

# expect CODE COMMAND…: runs it with stdout in $work/out and stderr in $work/err.
expect() {
  local wanted=$1; shift
  "$@" >"$work/out" 2>"$work/err" </dev/null
  local got=$?
  if [ "$got" -ne "$wanted" ]; then
    echo "--- stdout"; tail -n 20 "$work/out"; echo "--- stderr"; tail -n 20 "$work/err"
    fail "'$*' ended with $got, not $wanted"
  fi
}
has() { grep -qF -- "$2" "$work/$1" || { cat "$work/$1"; fail "no '$2' in $1"; }; }

# until_true SECONDS COMMAND…: polls with a deadline.
until_true() {
  local deadline=$((SECONDS + $1)); shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "not within the time: $*"
    sleep 0.05
  done
}

processes_of_home() { pgrep -f "$1" | while read -r pid; do
  tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null \
    | grep -qxF "MUSTER_HOME=$MUSTER_HOME" && echo "$pid"
done; true; }
supervisor_pids() { processes_of_home "[m]uster controller --detached"; }
serving_pids() { processes_of_home "[m]uster controller( --supervised| --idle-limit|$)"; }
# Both, supervisors first: who kills them all in this order sees none started again.
controller_pids() { supervisor_pids; serving_pids; }
no_controller() { [ -z "$(controller_pids)" ]; }
agent_pids() { pgrep -f "[m]uster.* agent serve .*$MUSTER_HOME/" || true; }
# Processes of a job, wherever: by its name in their environment. Another test beside this one may
# have a job of that name: this one's have a path of $work in their environment or their mounts.
job_pids() {
  local file
  for file in $(grep -lsazFx "MUSTER_JOB=$1" /proc/[0-9]*/environ 2>/dev/null); do
    grep -qsaF "$work/" "$file" "${file%environ}mountinfo" && echo "$file" | cut -d/ -f3
  done
  true
}
no_process_of() { [ -z "$(job_pids "$1")" ]; }

job_file() {  # job_file NAME: a job file from stdin
  cat >"$work/$1"
}

begin_long_job() {  # begin_long_job NAME CLUSTER COMPUTE NODE: it runs there, for minutes
  job_file "$1.yml" <<YAML
command: echo begun; sleep 300
compute: $3
muster: {placement: {include: [$4]}}
YAML
  expect 0 "$MUSTER" submit "$work/$1.yml" --cluster "$2" --name "$1"
  until_true 60 grep -qs begun "$MUSTER_HOME/jobs/$1/attempt-0/rank-0.log"
}
