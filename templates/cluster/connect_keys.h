// The key `connect` of a compute target: limits on reaching its nodes. ConnectSettings has the
// defaults and their reasons. Pure.
//
//   connect:
//     handshakes: 64                  # logins at once
//     unauthenticated_per_host: 8
//     retries: 6                      # of a connection that sshd dropped
//     resolve_timeout: 30s
//     tcp_timeout: 10s
//     login_timeout: 45s
//     silence: 15s                    # unanswered for so long, a connection counts as lost
//     unknown_hosts: record           # or refuse
//     fan_out:                        # `transport: local` only; with more than `above`: a tree
//       above: 1000000
//       radix: 16
//       patience: 5s                  # nobody waits longer for a parent
//       set_aside: 10m                # for so long, who could not reach a node gets no more
//       silence: 8s                   # unanswered for so long, a parent counts as lost
#pragma once

#include "scheduler/model/compute.h"
#include "templates/yaml/value.h"

namespace muster {

ConnectSettings read_connect(const Value& value, TransportKind transport);

}  // namespace muster
