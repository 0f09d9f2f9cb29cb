// One read of a node as it goes, over as many helpers as it takes: what was said, what is at hand,
// what is left. Belongs to its reader; pure: knows neither processes nor times.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "health/read/reader_protocol.h"

namespace muster {

class NodeRead {
 public:
  explicit NodeRead(NodeReadRequest request);

  // For the next helper. Files that were read are not read again, nor those that did not answer;
  // a driver that was asked is not asked again. Nothing: nothing is left.
  std::optional<ReadCommand> command() const;

  // False: no helper in its right mind says this now.
  bool take(const HelperMessage& message);
  bool is_over() const { return is_over_; }
  bool has_files() const { return !wants_files(); }

  // The path or the call that the helper announced and has not answered; empty: none.
  const std::string& at_hand() const { return at_hand_; }
  bool is_call() const { return part_ == Part::gpus && !at_hand_.empty(); }

  // The helper is gone, and what was at hand with it; a next one may read on.
  void unanswered(std::chrono::milliseconds waited);
  void helper_ended(const std::string& how);  // "the helper died of signal 11"
  // All that is left is not read, and says why.
  void give_up(const std::string& why);
  void give_up_unreached();  // because of what was lost last

  NodeReadings& readings() { return readings_; }

 private:
  // Of a helper's work: the next one begins anew.
  enum class Part { files, gpus };

  bool wants_files() const { return files_left_ < request_.sources.size(); }
  bool wants_gpus() const { return readings_.gpus && !gpus_begun_; }
  bool is_listed(std::string_view path) const;
  bool has_room(std::string_view name, std::string_view text);
  bool file_begins(const FileBegins& message);
  bool file_is_read(const FileIsRead& message);
  bool gpu_call_begins(const GpuCallBegins& message);
  bool gpu_is_read(const GpuIsRead& message);
  bool part_over(const HelperMessage& message);
  void lose(const std::string& why);

  NodeReadRequest request_;
  NodeReadings readings_;
  Part part_ = Part::files;
  std::size_t files_left_ = 0;  // the first source that was not read to its end
  std::set<std::string, std::less<>> unanswered_;
  std::string at_hand_;
  std::string lost_;  // "/data: no answer within 5 s"
  bool gpus_begun_ = false;
  bool is_over_ = false;
  std::size_t bytes_ = 0;
};

}  // namespace muster
