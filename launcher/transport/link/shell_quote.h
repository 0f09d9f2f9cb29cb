// The one place where a shell command is made: argv in, a string that every login shell reads as
// those words. Pure, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace muster {

// One word, safe in sh, bash, zsh, dash, fish and (but for line breaks) csh.
std::string shell_quote(std::string_view word);

// The words of a command, quoted and joined by spaces.
std::string shell_command(std::span<const std::string> argv);

}  // namespace muster
