// What a node's shell said, turned into the sentence a person gets. Pure: texts in, LinkFailure
// out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "launcher/transport/link/remote_process.h"
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

}  // namespace muster
