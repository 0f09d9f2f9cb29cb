// The membership file of an elastic job: which processes take part, epoch by epoch.
//
// The launcher alone writes it, and replaces it as a whole (temporary file, rename); every process
// of the job reads it. One JSON object:
//
//   {"epoch": 3, "members": [{"rank": 0, "host": "10.0.0.1", "port": 4567, "node": "h01"}, …]}
//
// epoch    rises with each change
// rank     of the process (RANK), for its whole life; never used again, so there may be gaps
// place    in the list: the rank in the communicator of this epoch; the first one leads
// host     and port where that process listens when it leads (MUSTER_MEMBER_PORT on its side)
//
// Other keys are for people. A process that is not in the list any more leaves after the step under
// way. Pure functions, but for read_membership.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct EpochMember {
  std::uint64_t rank = 0;
  std::string host;
  std::uint16_t port = 0;
  std::string node;
  friend bool operator==(const EpochMember&, const EpochMember&) = default;
};

struct EpochMembers {
  std::uint64_t epoch = 0;
  std::vector<EpochMember> members;

  // The place of a process; nothing when it does not take part.
  std::optional<std::size_t> place_of(std::uint64_t rank) const;
  friend bool operator==(const EpochMembers&, const EpochMembers&) = default;
};

std::string format_membership(const EpochMembers& members);

// Nothing when the text is not such an object, a number is missing or out of its range, or a rank
// is in it twice.
std::optional<EpochMembers> parse_membership(std::string_view text);

// Nothing when there is no readable file yet.
std::optional<EpochMembers> read_membership(const std::string& path);

}  // namespace muster
