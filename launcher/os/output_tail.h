// The last of what a command writes, for whoever looks at it now and then and must never wait.
#pragma once

#include <optional>
#include <string>

#include "launcher/os/fd.h"

namespace muster {

struct TailPipe {
  Fd read_end;   // does not block
  Fd write_end;  // the command's own, which blocks, as any program expects
};

// Nothing: errno says why.
std::optional<TailPipe> tail_pipe();

// Appends what is there, as much as a pipe holds at most: one that writes on holds nobody up. Of
// all `text` the last 8 KiB are kept.
void read_tail(int from, std::string& text);

}  // namespace muster
