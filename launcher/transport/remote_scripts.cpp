#include "launcher/transport/remote_scripts.h"

#include <array>

#include "launcher/transport/shell_quote.h"

namespace muster {
namespace {

// Both are POSIX sh on one line, free of quotes and backslashes that csh or fish would touch.
// $1 home, $2 build id; the home may start with ~/ and is ~/.muster when empty.
constexpr const char* find_home =
    "h=${1:-$HOME/.muster}; "
    "case $h in \"~\") h=$HOME;; \"~/\"*) h=$HOME/${h#??};; esac; "
    "b=$h/bin/muster-$2; ";

// $3 controller, $4 node.
constexpr const char* attach_script =
    "echo MUSTER-SHELL; "
    "if [ -x \"$b\" ]; then "
    "exec \"$b\" agent attach --home \"$h\" --controller \"$3\" --node \"$4\"; "
    "fi; echo MUSTER-PUSH $(uname -s) $(uname -m)";

// $3 size in bytes. Hosts may share the home, so the temporary name carries the host's.
constexpr const char* push_script =
    "umask 077; t=$h/bin/.tmp.$(uname -n).$$; trap \"\" HUP; "
    "mkdir -p \"$h/bin\" && cat > \"$t\" && s=$(wc -c < \"$t\") && "
    "if [ \"$s\" -ne \"$3\" ]; then echo muster: got $s of $3 bytes >&2; false; fi && "
    "chmod 755 \"$t\" && mv -f \"$t\" \"$b\" && echo MUSTER-PUSHED && exit 0; "
    "rm -f \"$t\"; exit 1";

}  // namespace

std::string attach_command(const AgentLaunch& launch, const NodeId& node) {
  const std::array<std::string, 8> argv{"sh",
                                        "-c",
                                        std::string(find_home) + attach_script,
                                        "muster-attach",
                                        launch.home,
                                        launch.build_id,
                                        launch.controller_id,
                                        node.value};
  return "exec " + shell_command(argv);
}

std::string push_command(const AgentLaunch& launch, std::size_t binary_bytes) {
  const std::array<std::string, 7> argv{"sh",
                                        "-c",
                                        std::string(find_home) + push_script,
                                        "muster-push",
                                        launch.home,
                                        launch.build_id,
                                        std::to_string(binary_bytes)};
  return "exec " + shell_command(argv);
}

}  // namespace muster
