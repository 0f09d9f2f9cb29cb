// What the `ssh` program said on standard error, turned into a LinkFailure. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/transport/link/remote_process.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"

namespace muster {

// sshd was busy and closed the connection before login: worth another try.
bool openssh_was_dropped(const RemoteExit& exit, std::string_view errors);

// `ssh` ended before the remote shell ran our command. `output` is what came on standard output.
LinkFailure openssh_failure(const NodeAddress& node, const RemoteExit& exit,
                            std::string_view output, std::string_view errors);

}  // namespace muster
