// What a node's shell said, turned into the sentence a person gets. Pure: texts in, LinkFailure
// out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/transport.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"

namespace muster {

// Of what a program said before it failed.
inline constexpr std::size_t kept_error_bytes = 4096;

// The last bytes of a stream, for messages.
class Tail {
 public:
  explicit Tail(std::size_t limit) : limit_(limit) {}
  void add(std::string_view text);
  const std::string& text() const { return text_; }

 private:
  std::size_t limit_;
  std::string text_;
};

// "h01 (10.0.0.1)", or just "h01" when that is the address.
std::string describe(const NodeAddress& node);

// What came from another machine, without control characters and not too long.
std::string shown_text(std::string_view text, std::size_t longest = 300);

// The last line with something on it, without control characters.
std::string last_line(std::string_view text);

// What a program says on standard error when it fails, and what helps.
struct FailurePattern {
  std::string_view text;
  LinkFailureKind kind;
  std::string_view cure;
};

// The first that occurs in the text; null: none.
const FailurePattern* find_pattern(std::span<const FailurePattern> patterns, std::string_view text);

// The attach command ended before MUSTER-ATTACHED. `output` is what came instead.
LinkFailure attach_failure(const NodeAddress& node, const RemoteExit& exit, bool shell_started,
                           std::string_view output, std::string_view errors);

// The attach command ended behind MUSTER-ATTACHED: what became of the stream.
std::string attach_end_text(const RemoteExit& exit, std::string_view errors);

// The push command ended without MUSTER-PUSHED.
LinkFailure push_failure(const NodeAddress& node, const RemoteExit& exit, std::string_view errors);

// The binary at `path` is for another processor or system than the node's `uname -s -m`; "" when it
// fits or cannot be told (a script).
std::string machine_mismatch(std::string_view binary, std::string_view uname);

// The two commands that muster runs through a login shell, and the lines they print. Pure.
//
// attach: becomes `<home>/bin/muster-<build id> agent attach …` (or `agent relay …`), which prints
//         MUSTER-ATTACHED and is a byte stream from there; or, where that file is not in order,
//         prints MUSTER-SHELL and `MUSTER-PUSH <system> <machine>`, or why not, and exits.
// push:   reads the binary from standard input, puts it in place atomically, prints MUSTER-PUSHED.

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
