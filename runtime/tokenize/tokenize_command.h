// The command line of `muster-train tokenize`.
#pragma once

namespace muster {

// argv[0] is "tokenize". Prints what it does, help and complaints; returns the exit code.
int run_tokenize_command(int argc, const char* const* argv);

}  // namespace muster
