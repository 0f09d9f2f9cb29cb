#include "runtime/train/elastic/member_watch.h"

#include <sys/stat.h>

namespace muster {

const EpochMembers& MemberWatch::newest() {
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0) return newest_;
  const std::int64_t changed_ns =
      std::int64_t{found.st_ctim.tv_sec} * 1'000'000'000 + found.st_ctim.tv_nsec;
  if (found.st_ino == inode_ && changed_ns == changed_ns_) return newest_;
  const auto read = read_membership(path_);
  if (!read) return newest_;  // another look may find it whole
  inode_ = found.st_ino;
  changed_ns_ = changed_ns;
  if (read->epoch > newest_.epoch) newest_ = *read;
  return newest_;
}

}  // namespace muster
