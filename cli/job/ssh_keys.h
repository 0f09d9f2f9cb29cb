// The keys with which OpenSSH reaches the nodes of one job over muster's own connection: of the
// person, and of the nodes. Made once, below the job's directory in the state directory, which is
// removed with the job. Private parts are 0600.
#pragma once

#include <filesystem>

#include "launcher/controller/store/home.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/model/result.h"

namespace muster {

inline std::filesystem::path ssh_directory(const Home& home, const JobId& job) {
  return home.job(job) / "ssh";  // identity, identity.pub, host, host.pub, known_hosts
}

// What a node is given; made where there is none yet.
Result<SshKeys> ssh_keys_of(const Home& home, const JobId& job);

}  // namespace muster
