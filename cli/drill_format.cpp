// The description of the drill format: what `muster drill --help` prints.
#include "cli/drill_file.h"

namespace muster {

const char* const drill_format = R"(The file:
  job: train.yml              the job; a path from this file on
  set: [a.b=value]            as --set of `muster run`
  sandbox: {hosts: 3}         hosts of its own, where the job then runs; also
                              private_home: true, home_mib: 1100 (for `fill`; jobs want 1024 free)
  seed: 7                     of everything random; otherwise drawn and printed
  limit: 10m                  the job must have ended by then
  steps:                      one after the other, each:
    - when: step >= 20        also attempt, state == Running, checkpoint (a new one is committed),
                              saving (muster-train begins to write a new one), output (the
                              attempt's first byte)
      after: 1s..4s           a pause from then on, or from the step before; drawn, or fixed: 3s
      kill: {rank: 1}         and one action
  expect:                     what must hold when the job is over

Actions:
  kill: {rank: R, signal: TERM}  the first process of a rank; KILL unless said
  kill: {agent: NODE}            the agent of a node
  kill: {connection: NODE}       the sshd that the controller speaks to there
  kill: {controller: true}       also, for one that is drawn, `kill: rank` and so on
  stop: {rank: R, for: 5s}       SIGSTOP, then SIGCONT; also an agent, a connection, the controller
  partition: {host: H, for: 5s}  pull the cable; also `partition: H`, until `heal: H`
  crash: H, boot: H              power a host off and on
  fill: {host: H, for: 5s}       no space in the home of a host; also `fill: H`
  drain: NODE, undrain: NODE     give a node nothing new; undone at the end
  cancel: true                   as `muster cancel`
R and NODE may be `random`. A step that finds nothing to hit is tried again for a minute.

Expectations:
  status: Completed              or Failed, Canceled
  exit_code: 0                   a number or a comparison: '>= 2'
  attempts: '>= 2'
  explain: [resumes from step]   each is somewhere in `muster explain`
  no_process_left: true          by the job's name in the environment, on this machine's hosts
  outputs_equal: true            to those of an undisturbed run, done first; or [paths]
  log_counts: 'tick {n}'         in every rank's log such lines count up by one, none lost or twice

Exit code 0: every step was done and every expectation holds; 1: not; 90: the file is wrong.
Files to start from: configs/drills.)";

}  // namespace muster
