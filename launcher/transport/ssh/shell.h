// Runs commands over an authenticated libssh2 session, one channel each.
// Private to launcher/transport; one thread.
#pragma once

#include <memory>

#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/ssh/session.h"

namespace muster {

// The session stays open as long as the shell or one of its processes.
std::shared_ptr<RemoteShell> make_ssh_shell(std::shared_ptr<SshSession> session);

}  // namespace muster
