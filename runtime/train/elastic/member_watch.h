// What the membership file of an elastic job says now. One thread; a look costs one stat(2) while
// the file stays the same.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/protocol/membership.h"

namespace muster {

class MemberWatch {
 public:
  explicit MemberWatch(std::string path) : path_(std::move(path)) {}

  // The highest epoch that was ever seen; epoch 0 without members before the first.
  const EpochMembers& newest();

 private:
  std::string path_;
  EpochMembers newest_;
  std::uint64_t inode_ = 0;
  std::int64_t changed_ns_ = 0;
};

}  // namespace muster
