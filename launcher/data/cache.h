// A node's cache of data from stores, and data of one input onto this node: what the cache lacks is
// fetched, verified and kept, and a tree of it stands there. Below its directory, which is its
// owner's alone (0700):
//
//   objects/<aa>/<name>   bytes of one object of a store, 0444, with the object's time
//   trees/<manifest>/     what an input is: hard links to objects
//   locks/<manifest>      held (flock) by who uses the tree; its time is the last use
//   incoming/<manifest>/  what is being fetched, and incoming/<manifest>.lock by whom
//
// Blocking. Any number of processes; what a killed one left in incoming/ is removed.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/data/manifest.h"
#include "launcher/os/fd.h"
#include "launcher/wire/agent_message.h"

namespace muster {

using TellData = std::function<void(std::string_view doing)>;

// A share of a file system or a number of bytes ("80%", "500gb"), of so many bytes in all.
std::optional<std::int64_t> share_of(std::string_view text, std::int64_t all_bytes);

// How many bytes a mount may keep, as Azure's DATASET_MOUNT_CACHE_SIZE says it (bytes, "500 MB"; a
// negative number: what stays free of the disk); nothing for other text.
std::optional<std::int64_t> mount_cache_bytes(std::string_view text, std::int64_t free_bytes);

std::int64_t time_ns(const struct stat& facts);  // when it was written to, since 1970

// Tells now and then: a large file takes minutes.
Result<std::string> md5_of_file(const std::filesystem::path& path, const TellData& tell);

// Of a file that its last holder removes. Nothing where it cannot be had at once.
std::optional<Fd> shared_lock(const std::filesystem::path& file);

class DataCache {
 public:
  // Makes what is missing.
  static Result<DataCache> open(const std::filesystem::path& root);

  std::filesystem::path tree(const std::string& manifest) const {
    return root_ / "trees" / manifest;
  }
  std::filesystem::path incoming(const std::string& manifest) const {
    return root_ / "incoming" / manifest;
  }
  std::filesystem::path object(const std::string& name) const;

  // The tree is not removed while this is open. Nothing where it cannot be had at once.
  std::optional<Fd> hold(const std::string& manifest) const;
  // The one that fetches it; tells while another does.
  Result<Fd> fetching(const std::string& manifest, const TellData& tell) const;

  // Whether the file is there with the size and time that the manifest has.
  static bool is_as_listed(const std::filesystem::path& path, const DataFile& file);
  bool is_whole(const std::string& manifest, const DataManifest& files) const;
  // Puts a verified file under its object's name.
  Status keep(const std::filesystem::path& fetched, const std::string& name,
              const DataFile& file) const;
  // The tree, from objects that are all there.
  Status build(const std::string& manifest, const DataManifest& files) const;

  struct Room {
    std::int64_t share = 0;  // of what the cache may take
    std::int64_t free = 0;   // of the file system
    std::int64_t limit = 0;  // what the cache may take
  };
  Room room(const std::string& size, const std::string& share) const {
    return room_at(root_, size, share);
  }
  // The directory may not be there yet; nothing is made.
  static Room room_at(const std::filesystem::path& root, const std::string& size,
                      const std::string& share);
  static std::int64_t held_bytes(const std::filesystem::path& root);

  // Removes what was not used for longest until there is room for so many bytes. The Error says how
  // much there is, and how much is in use. What `files` wants stays, and what others are about to
  // fetch is reckoned with. `lock` is the one by which this caller fetches.
  Status make_room(std::int64_t bytes, const std::string& size, const Fd& lock = Fd(),
                   const DataManifest* files = nullptr, const TellData& tell = {}) const;

 private:
  explicit DataCache(std::filesystem::path root) : root_(std::move(root)) {}

  std::filesystem::path root_;
};

// Of the file system that a directory is on, or would be; without a size where that is not known.
std::filesystem::space_info disk_of(std::filesystem::path directory);

struct StagingFailure {
  std::string message;
  bool is_lasting = false;  // it would fail on every node
  bool lacks_room = false;
  bool has_changed = false;  // the data are not what was listed
};

struct StagedTree {
  std::string path;
  // Not staged but to be mounted, where so many bytes may be kept; the file to ask for.
  std::optional<std::int64_t> stream_cache{};
  std::string first_file{};
  std::optional<StagingFailure> failure{};
  std::int64_t fetched_bytes = 0;
};

// "input 'x'", "output 'x'".
std::string data_name(const StagedData& data);

// For a child process that may be killed at any point: what was verified until then is not fetched
// again. `manifest` is the text of the list that `data.manifest` names; `node` is for sentences.
StagedTree stage_data(const StagedData& data, std::string_view manifest,
                      const std::string& cache_directory, const std::string& node,
                      const TellData& tell);

}  // namespace muster
