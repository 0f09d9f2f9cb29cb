// Directories as one look at a program's own checkpoints finds them: names, sizes and times of
// plain files and directories, no links. A look has a limit of time and of entries, since it may
// meet a directory of any size on a file system of any speed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct FolderEntry {
  std::string name;
  bool is_folder = false;
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  // since 1970, the last change of the content
  std::int64_t inode = 0;
  std::uint32_t owner = 0;
};

struct ListedFolder {
  std::string path;
  std::vector<FolderEntry> entries = {};  // by name
  std::int64_t changed_ns = 0;            // the last time that an entry came or went
  std::uint32_t owner = 0;
  bool is_partial = false;                // links, or what could not be read: it may hold more

  std::string_view name() const;
  std::string path_of(std::string_view entry) const { return path + "/" + std::string(entry); }
  const FolderEntry* find(std::string_view entry) const;
};

class Look {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Look(std::chrono::milliseconds limit) : end_(Clock::now() + limit) {}
  // Nothing: it cannot be read, or time is up. Of a directory with more entries than are looked at,
  // those with the highest numbers in their names, and those without one.
  std::optional<ListedFolder> open(const std::string& path) const;
  bool is_over() const { return Clock::now() >= end_; }

 private:
  Clock::time_point end_;
};

std::optional<std::int64_t> last_number(std::string_view name);
// The step at the end of a name without its ending: 400 of "epoch=3-step=400" and "model_400"; none
// of "resnet50", "loss=0.25" and "last-v1".
std::optional<std::int64_t> step_named(std::string_view stem);
// The number between `prefix` and `suffix`, which is all that lies between them.
std::optional<std::int64_t> number_between(std::string_view name, std::string_view prefix,
                                           std::string_view suffix = {});

}  // namespace muster
