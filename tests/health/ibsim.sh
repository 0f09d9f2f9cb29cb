# shellcheck shell=bash
# Sourced by tests: a simulated InfiniBand fabric (ibsim, opensm and the real infiniband-diags) of
# an unprivileged user, in the directory $fabric.
#
#   fabric_needs                  exits 77 with the reason when a program is missing
#   fabric_net LEAVES SPINES HOSTS_OF_A_LEAF DEVICES >NET      a topology
#   fabric_up NET                 starts the fabric, ends when a subnet manager has brought it up
#   fabric_tell 'Unlink "…"[1]'   to the simulator's console; no answer
#   fabric_settle                 returns when all that was told is done
#   on_fabric PROGRAM…            a program on the first adapter of the fabric
#   fabric_down
#
# Ends of cables are written as the simulator does: "n1 mlx5_0"[1].

umad2sim=/usr/lib/$(uname -m)-linux-gnu/umad2sim/libumad2sim.so
# The fabric of 1,024 adapters is up within 2 s on an idle machine.
fabric_wait_s=60

fabric_needs() {
  local program
  PATH=$PATH:/usr/sbin:/sbin
  for program in ibsim opensm ibstat ibnetdiscover iblinkinfo ibqueryerrors sminfo; do
    command -v "$program" >/dev/null || { echo "needs $program (see scripts/packages)"; exit 77; }
  done
  [ -e "$umad2sim" ] || { echo "needs $umad2sim"; exit 77; }
}

# Hosts n1, n2, … with devices mlx5_0, …; device i of a host is cabled to leaf i of its group of
# DEVICES leaves, and each leaf to every spine once. All cables are 4X HDR.
fabric_net() { # LEAVES SPINES HOSTS_OF_A_LEAF DEVICES
  awk -v leaves="$1" -v spines="$2" -v hosts="$3" -v devices="$4" '
    function cable(port, peer, peer_port) {
      printf "[%d]\t\"%s\"[%d]\te=7\n", port, peer, peer_port
    }
    BEGIN {
      for (leaf = 1; leaf <= leaves; leaf++) {
        first = int((leaf - 1) / devices) * hosts
        printf "Switch\t%d \"leaf%d\"\n", hosts + spines, leaf
        for (i = 1; i <= hosts; i++) cable(i, "n" first + i " mlx5_" (leaf - 1) % devices, 1)
        for (i = 1; i <= spines; i++) cable(hosts + i, "spine" i, leaf)
        print ""
      }
      for (spine = 1; spine <= spines; spine++) {
        printf "Switch\t%d \"spine%d\"\n", leaves, spine
        for (i = 1; i <= leaves; i++) cable(i, "leaf" i, hosts + spine)
        print ""
      }
      for (host = 1; host <= leaves / devices * hosts; host++) {
        for (i = 0; i < devices; i++) {
          leaf = int((host - 1) / hosts) * devices + i + 1
          printf "Hca\t1 \"n%d mlx5_%d\"\n", host, i
          cable(1, "leaf" leaf, (host - 1) % hosts + 1)
          print ""
        }
      }
    }'
}

# Gives up, with the simulator's last words.
fabric_failed() {
  echo "the simulated fabric: $1" >&2
  tail -n 5 "$fabric/ibsim.log" >&2
  fabric_down
  exit 1
}

fabric_await() { # WHAT COMMAND…
  local until=$((SECONDS + fabric_wait_s)) what=$1
  shift
  until "$@"; do
    kill -0 "$ibsim_pid" 2>/dev/null || fabric_failed "ibsim ended before $what"
    [ "$SECONDS" -lt "$until" ] || fabric_failed "no $what within $fabric_wait_s s"
    sleep 0.1
  done
}
fabric_is_ready() { grep -q ready "$fabric/ibsim.log"; }
# The simulator's log says that the port came up before it did.
fabric_is_active() { on_fabric ibstat 2>/dev/null | grep -q 'State: Active'; }

fabric_up() { # NET
  local net=$1
  fabric=$(mktemp -d "${TMPDIR:-/tmp}/muster-fabric-XXXXXX")
  # The socket has no file: its name must be nobody else's on this machine.
  export IBSIM_SOCKNAME=${fabric##*/} OSM_TMP_DIR=$fabric OSM_CACHE_DIR=$fabric
  fabric_adapter=$(awk -F'"' '/^Hca/ { print $2; exit }' "$net")
  cp "$net" "$fabric/net"
  : >"$fabric/ibsim.log"
  mkfifo "$fabric/console"
  exec 7<>"$fabric/console"
  (cd "$fabric" && exec ibsim -s -N 8192 -S 2048 -P 65536 net <console >ibsim.log 2>&1 7>&-) &
  ibsim_pid=$!
  fabric_await 'simulator' fabric_is_ready
  (cd "$fabric" && SIM_HOST=$fabric_adapter LD_PRELOAD=$umad2sim \
    exec opensm -f opensm.log >opensm.out 2>&1 7>&-) &
  opensm_pid=$!
  fabric_await 'subnet manager' fabric_is_active
}

on_fabric() {
  (cd "$fabric" && SIM_HOST=$fabric_adapter LD_PRELOAD=$umad2sim timeout 30 "$@" 7>&-)
}

fabric_tell() { printf '%s\n' "$@" >&7; }

# The console is read in order: when a mark comes back, what was told before it is done.
fabric_settle() {
  fabric_mark=$((${fabric_mark:-0} + 1))
  fabric_tell "Mark$fabric_mark"
  fabric_await "answer to Mark$fabric_mark" grep -qF "'Mark$fabric_mark'" "$fabric/ibsim.log"
}

# A client that loses the simulator waits for it forever: the subnet manager goes first.
fabric_down() {
  local pid
  for pid in ${opensm_pid:-} ${ibsim_pid:-}; do
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  opensm_pid='' ibsim_pid=''
  exec 7>&-
  [ -n "${fabric:-}" ] && rm -rf "$fabric"
  fabric=''
}
