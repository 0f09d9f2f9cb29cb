// One run of the program rclone, which speaks to stores. Its configuration, which holds
// credentials, is a file in memory that this process and rclone alone have; what it says comes
// without secrets. Blocking; rclone ends with the process that runs it.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

struct RcloneProgress {
  std::int64_t bytes = 0;
  std::int64_t files = 0;
  double bytes_per_s = 0;
};

struct RcloneRequest {
  std::vector<std::string> words;  // "lsjson", "store:c/p", …
  std::string config;
  std::string files{};  // for --files-from-raw: a name a line; empty: not given
  std::function<void(std::string_view line)> on_line{};  // of what it writes to its output
  std::function<void(const RcloneProgress&)> on_progress{};
};

// Why it failed, in its own last words.
struct RcloneFailure {
  std::string message;
  bool is_missing_program = false;
  bool is_not_found = false;  // the place is not there: not a matter of the connection
};

// Begun at once, so that other work may be done meanwhile; killed where nobody waits for it.
class Rclone {
 public:
  static Result<Rclone> begin(RcloneRequest request);
  ~Rclone();
  Rclone(Rclone&&) noexcept = default;
  Rclone& operator=(Rclone&&) = delete;

  // Until it ends; gives on what it writes meanwhile. Nothing: all went well.
  std::optional<RcloneFailure> wait();

 private:
  Rclone() = default;
  void take_log(std::string_view line);

  RcloneRequest request_;
  std::vector<std::string> secrets_;
  pid_t pid_ = 0;
  Fd output_;
  Fd log_;
  std::string last_error_;
  bool is_not_found_ = false;
};

// Where rclone is on this machine; empty: nowhere.
std::string rclone_program();
// "rclone is not installed on n03; …".
std::string no_rclone_text(const std::string& machine);

}  // namespace muster
