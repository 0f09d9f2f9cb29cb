// The program rclone, which speaks to stores. Its configuration, which holds credentials, is a file
// in memory that this process and rclone alone have; what it says comes without secrets. Blocking;
// rclone ends with the process that runs it. `machine` is for sentences.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/data/datastore.h"
#include "launcher/data/manifest.h"

namespace muster {

struct RcloneRequest {
  std::vector<std::string> words;  // "lsjson", "store:c/p", …
  std::string config;
  std::string files{};  // for --files-from-raw: a name a line; empty: not given
  std::function<void(std::string_view line)> on_line{};  // of what it writes to its output
  std::function<void(std::int64_t bytes, double bytes_per_s)> on_progress{};
};

struct RcloneFailure {
  std::string message;        // in its own last words; empty: there is no rclone
  bool is_not_found = false;  // the place is not there: not a matter of the connection

  // "ATTEMPTED: MESSAGE", or that there is no rclone.
  std::string text(const std::string& attempted, const std::string& machine) const;
};

// Until it ends. Nothing: all went well.
std::optional<RcloneFailure> run_rclone(const RcloneRequest& request);

// Where rclone is on this machine; empty: nowhere.
std::string rclone_program();

// What a place in rclone's words ("store:c/p") holds, sorted; a place that is not there holds
// nothing. `attempted` is for sentences: "cannot list …".
Result<std::vector<DataFile>> list_files(const std::string& config, const std::string& place,
                                         const std::string& attempted, const std::string& machine);

// What a path in a store holds, asked once, where a job is submitted.
Result<DataManifest> list_place(const PlaceInStore& place, const Credentials& credentials,
                                const std::string& machine, bool may_be_empty = false);

// A tree of this machine into a store: one file, or all below a directory. What is there already
// and equal is not copied twice. `only`: paths below the directory; empty: all.
Status upload_tree(const std::filesystem::path& source, const PlaceInStore& place,
                   const Credentials& credentials, const std::string& machine,
                   const std::vector<std::string>& only = {});

}  // namespace muster
