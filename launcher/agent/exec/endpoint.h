// What an exec session can have at the node's end beside a command with pipes: a terminal, a socket
// that listens there, or an sshd for one connection. Functions of the agent's thread; they keep
// nothing. What is asked comes from another machine and is checked here.
#pragma once

#include <string>

#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/os/fd.h"
#include "launcher/wire/agent_request.h"

namespace muster {

struct TerminalEnds {
  Fd master;
  Fd slave;
};
Result<TerminalEnds> open_terminal(const TerminalShape& shape);

// Tells the programs in it too.
void resize_terminal(int terminal, int rows, int columns);

// A socket that is connected, or about to be, to `name`: a port of 127.0.0.1, or the path of a Unix
// socket of this account in `directory`.
Result<Fd> dial(const std::string& name, const std::string& directory);

// Fills in what the channel stands for: TERM, the login shell, the sshd, whose files are written
// below `directory`, which goes with the attempt.
Status complete(ExecStart& request, Environment& environment, const std::string& directory);

}  // namespace muster
