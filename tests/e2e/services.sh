#!/usr/bin/env bash
# What runs beside the ranks: a server of the job's own, a Jupyter double with its token, programs
# that are missing, a port that nobody else on the node can reach; and that nothing of them is left.
. "$(dirname "$0")/harness.sh"
[ -x /usr/bin/python3 ] || skip "needs python3"

cat >"$work/server.py" <<'PYTHON'
# Serves a page at a Unix socket or a port, to those who know the token where there is one.
import http.server, os, socket, socketserver, sys
class Page(http.server.BaseHTTPRequestHandler):
    log_message = lambda self, *words: None
    def do_GET(self):
        token = os.environ.get("JUPYTER_TOKEN")
        ok = token is None or self.path == "/?token=" + token
        self.send_response(200 if ok else 403); self.end_headers()
        self.wfile.write(f"{sys.argv[1]} of rank {os.environ.get('RANK')}\n".encode())
class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): pass
where = sys.argv[2]
if where.isdigit(): http.server.ThreadingHTTPServer(("127.0.0.1", int(where)), Page).serve_forever()
Unix(where, Page).serve_forever()
PYTHON
mkdir "$work/bin"
cat >"$work/bin/jupyter" <<SH
#!/bin/sh
for word; do case \$word in --ServerApp.sock=*) socket=\${word#*=} ;; esac; done
echo "kernels: \$* below \$(cd "\$JUPYTER_RUNTIME_DIR" && pwd -P)"
exec >/dev/null 2>&1
sleep 1
exec /usr/bin/python3 $work/server.py jupyter "\$socket"
SH
cat >"$work/bin/tensorboard" <<SH
#!/bin/sh
echo "logs: \$6"
sleep 2
exec /usr/bin/python3 $work/server.py board "\$4"
SH
chmod +x "$work/bin/jupyter" "$work/bin/tensorboard"

job_file job.yml <<YAML
command: echo begun; while [ ! -e $work/over ]; do sleep 0.1; done
compute: azureml:local-cluster
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 1}
environment_variables: {PATH: "$work/bin:/usr/bin:/bin"}
services:
  page:
    type: custom
    nodes: all
    properties: {command: exec /usr/bin/python3 $work/server.py page "\$MUSTER_SERVICE_SOCKET"}
  lab: {type: jupyter_lab}
  board: {type: tensor_board, port: 16873, log_dir: runs}
  code: {type: vs_code, nodes: 1}
  own: {type: custom, port: 16874}
  brief: {type: custom, properties: {command: exit 3}}
  shell: {type: ssh}
YAML
begun() {
  grep -qs begun "$MUSTER_HOME/jobs/$1/attempt-0/rank-0.log" \
    && "$MUSTER" services "$1" >"$work/out" 2>"$work/err" && grep -q "with code 3" "$work/out" \
    && [ "$(grep -cE 'running|starting' "$work/out")" -eq 4 ]
}
expect 0 "$MUSTER" submit "$work/job.yml" --name beside
until_true 60 begun beside
cat "$work/out"
grep -qE '^code +vs_code +1 +missing .*code-server' "$work/out" || fail "the missing program"
grep -qE '^own +custom +0 +unknown' "$work/out" || fail "the job's own"
grep -qE '^brief +custom +0 +ended +- +with code 3; log: /.*/services/brief.log' "$work/out" \
  || fail "the one that ended"
has out "muster ssh beside --node 0"
expect 0 "$MUSTER" job show-services -n beside -i 1; has out page
! grep -q lab "$work/out" || fail "node 1 has no lab"
! "$MUSTER" services beside -o json | grep -q '[0-9a-f]\{48\}' || fail "a token in the list"

# --- by name, with the link
expect 1 "$MUSTER" forward beside brief; has err "service brief is ended: with code 3"
expect 1 "$MUSTER" forward beside pgae; has err "did you mean 'page'?"
expect 1 "$MUSTER" forward beside shell; has err "service shell is ssh: use muster ssh beside"
expect 2 "$MUSTER" forward beside 70000; has err "port 70000 is above 65535"
expect 2 "$MUSTER" forward beside 16874; has err "no forward is needed"
expect 1 "$MUSTER" services beside --node 2; has err "has nodes 0 to 1"
expect 1 "$MUSTER" forward beside nothing; has err "no service 'nothing'"
expect 2 "$MUSTER" forward beside --rank 1 page; has err "name it with --node"
expect 1 "$MUSTER" forward beside --node 1 code; has err "service code is missing"
"$MUSTER" forward beside page lab board >"$work/ports" 2>"$work/refused" &
"$MUSTER" forward beside --node 1 0:page >"$work/ports1" 2>>"$work/refused" &
until_true 20 grep -q page.sock "$work/ports1"
until_true 20 grep -q board.sock "$work/ports"
page() { /usr/bin/python3 -c 'import sys, urllib.request as u
try: print(u.urlopen(sys.argv[1], timeout=20).read().decode())
except u.HTTPError as e: print(e.code)' "$1"; }
link() { grep -o "http://.* -> .*/$1.sock" "$2" | cut -d' ' -f1; }
shows() { page "$1" 2>/dev/null | grep -q "$2"; }
until_true 20 shows "$(link page "$work/ports")" "page of rank 0"
until_true 20 shows "$(link page "$work/ports1")" "page of rank 1"
lab=$(link lab "$work/ports")
until_true 20 shows "$lab" "jupyter of rank 0"
[ "$(page "${lab%/*}/")" = 403 ] || fail "without its token"
until_true 20 shows "$(link board "$work/ports")" "board of rank 0"
! (exec 3<>/dev/tcp/127.0.0.1/16873) 2>/dev/null || fail "the board can be reached by others"
services=$(find "$MUSTER_HOME" -type d -name services -path '*local-0*')
[ "$(stat -c %a "$services" "$services/lab.json" | tr '\n' ' ')" = "700 600 " ] || fail "modes"
grep -q "logs: runs" "$services/board.log" || fail "log_dir"
grep -q "kernels: .*--KernelManager.transport=ipc below $services\$" "$services/lab.log" \
  || fail "kernels at ports"
! grep -rqF "${lab##*=}" "$MUSTER_HOME/jobs" "$services"/*.log || fail "the token is written down"
! pgrep -af "${lab##*=}" || fail "the token is in a command line"

# --- a connection ends with the forward that has it
exec 3<>"/dev/tcp/127.0.0.1/$(link page "$work/ports" | cut -d: -f3 | cut -d/ -f1)"
is_forwarded() { processes_of_home "[f]orward beside" | grep -q .; }
is_over() { ! is_forwarded; }
is_forwarded || fail "no forward"
kill $(jobs -p)
wait
until_true 5 is_over
exec 3>&-

# --- a node that cannot be asked
ln -s /bin/false "$work/bin/sh"
expect 0 "$MUSTER" services beside --node 0
grep -qE '^page +custom +0 +unknown .* exit' "$work/out" || { cat "$work/out"; fail "why unknown"; }
rm "$work/bin/sh"
# Who asks may be killed while there is no answer; nothing goes on asking, here or there.
printf '#!/bin/bash\nexec sleep 1007\n' >"$work/bin/sh"; chmod +x "$work/bin/sh"
timeout -s KILL 3 "$MUSTER" services beside
nobody_asks() {
  ! pgrep -f '[s]leep 1007' && ! processes_of_home "[m]uster exec beside" | grep -q .
}
until_true 10 nobody_asks
rm "$work/bin/sh"

# --- what a job has laid there
mkfifo "$services/pipe.json"
cat >"$services/zz.json" <<'JSON'
{"name":"page","state":"run\u001bning","socket":"/a\nb","token":"x\u001b[31m\nhttp://y"}
JSON
expect 0 "$MUSTER" services beside --node 0
grep -qE '^page +custom +0 +run.ning' "$work/out" || fail "laid there"
sed -i 's/run.u001bning/running/' "$services/zz.json"
timeout 5 "$MUSTER" forward beside page >"$work/ports"
[ "$(wc -l <"$work/ports")" -eq 1 ] && ! grep -q $'\e' "$work/ports" || fail "a link on two lines"
rm "$services/zz.json" "$services/pipe.json"

# --- one whose process was killed; a port that is forwarded until the job ends
kill -9 $(pgrep -f "agent service ${services%/services} board$")  # it, and what passes connections
is_killed() {
  "$MUSTER" services beside | grep -qE '^board +tensor_board +0 +ended +- +its process was killed'
}
until_true 20 is_killed
"$MUSTER" forward beside 0:16874 >"$work/ports" 2>"$work/ended" &
forward=$!
until_true 20 grep -q 16874 "$work/ports"

# --- the end of the ranks is that of the job, and of the services
touch "$work/over"
expect 0 "$MUSTER" wait beside
wait "$forward" || fail "forward at the end of its job"
grep -q "job beside has ended" "$work/ended" || fail "forward says nothing"
for verb in services "forward 0:16874" "forward page"; do
  read -r word port <<<"$verb"
  expect 1 "$MUSTER" "$word" beside $port; has err "job beside is not running"
done
until_true 20 no_process_of beside
rm "$work/over"
expect 0 "$MUSTER" submit "$work/job.yml" --name again
until_true 60 begun again
expect 0 "$MUSTER" cancel again --grace 1s
until_true 20 no_process_of again
expect 0 "$MUSTER" submit "$work/job.yml" --name orphan
until_true 60 begun orphan
for pid in $(controller_pids); do kill -9 "$pid"; done
expect 0 "$MUSTER" cancel orphan --grace 1s
until_true 20 no_process_of orphan
