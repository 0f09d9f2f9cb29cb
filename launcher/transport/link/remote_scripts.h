// The two commands that muster runs through a login shell, and the lines they print. Pure.
//
// attach: becomes `<home>/bin/muster-<build id> agent attach …` (or `agent relay …`), which prints
//         MUSTER-ATTACHED and is a byte stream from there; or, where that file is not in order,
//         prints MUSTER-SHELL and `MUSTER-PUSH <system> <machine>`, or why not, and exits.
// push:   reads the binary from standard input, puts it in place atomically, prints MUSTER-PUSHED.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "launcher/transport/link/transport.h"

namespace muster {

inline constexpr std::string_view shell_marker = "MUSTER-SHELL\n";
inline constexpr std::string_view push_marker = "MUSTER-PUSH ";
inline constexpr std::string_view pushed_marker = "MUSTER-PUSHED\n";
inline constexpr std::string_view attached_marker = "MUSTER-ATTACHED\n";

std::string attach_command(const AgentLaunch& launch, const NodeId& node);
std::string push_command(const AgentLaunch& launch, std::size_t binary_bytes);

// The one place where a shell command is made: argv in, a string that every login shell reads as
// those words. Pure, any thread.

// One word, safe in sh, bash, zsh, dash, fish and (but for line breaks) csh.
std::string shell_quote(std::string_view word);

// The words of a command, quoted and joined by spaces.
std::string shell_command(std::span<const std::string> argv);

}  // namespace muster
