// Results on their way back, the node's side: every file below some folders of the job's directory,
// in pieces for FileData. Files are opened without following links and may change or vanish
// meanwhile; what could not be sent is listed, never an end to the rest. One thread.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "launcher/staging/blob_store.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// Becomes one FileData: the same fields, and `bytes` as its payload.
struct CollectPiece {
  TreeEntry entry;
  std::int64_t offset = 0;
  std::string bytes;
  bool last = false;
};

class CollectReader {
 public:
  // `folders` (`outputs`, `logs`) lie directly below `job_directory`; absent ones are skipped.
  static Result<CollectReader> open(const std::filesystem::path& job_directory,
                                    const std::vector<std::string>& folders);

  const std::vector<TreeEntry>& entries() const { return entries_; }
  // The next piece of at most `limit_bytes`; nothing after the last one.
  std::optional<CollectPiece> next(std::size_t limit_bytes);
  // What could not be sent and why, one sentence each.
  const std::vector<std::string>& problems() const { return problems_.list; }
  // What is never sent, a sentence each: sockets, pipes, devices.
  const std::vector<std::string>& left_out() const { return left_out_.list; }

 private:
  CollectReader(Fd root, std::filesystem::path name);
  void list_directory(const std::string& path);
  void list_entry(const Fd& parent, const std::string& path, const std::string& last,
                  const struct stat& facts);
  void list_link(const Fd& parent, const std::string& path, const std::string& last);
  std::optional<CollectPiece> next_of_file(const TreeEntry& entry, std::size_t limit_bytes);
  void advance();

  Fd root_;
  std::filesystem::path name_;
  std::vector<TreeEntry> entries_;
  FirstSentences problems_;
  FirstSentences left_out_;
  std::size_t current_ = 0;
  Fd file_;
  std::int64_t offset_ = 0;
};

}  // namespace muster
