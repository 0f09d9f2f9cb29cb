// Results on their way back, the controller's side: the pieces of all nodes become files below the
// job's directory. Nothing a node says is trusted: paths stay inside the named folders, links are
// never written through, a link that leads out of its folder is left out (problem).
//
// Pieces are gathered in `.incoming` and settled by `finish`: where nodes sent different files
// under one name the lowest node's keeps it and the others become `<file>.node<k>`; equal files are
// merged. A file of an earlier collection is replaced, but for what nodes delivered that left the
// attempt while it ran (`earlier`): it keeps its name, as those nodes are not asked again. Dropped
// without `finish`, nothing changes. One thread.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/fd.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// What nodes delivered that left an attempt while it ran: `attempt-<n>/settled.json` of the job. A
// controller that collects from the others later, perhaps another one, replaces none of it.
//
// Format, version 1: {"version": 1, "files": {"<path>": "<what is there>"}}, both escaped names.

// Path below the job's directory -> "directory", "link to <target>" or "file <hash>".
using SettledFiles = std::map<std::string, std::string>;

Status save_settled(const std::filesystem::path& file, const SettledFiles& settled);
// None when there is no such file.
Result<SettledFiles> load_settled(const std::filesystem::path& file);

class FileSink {
 public:
  // There as long as not everything has been moved to its name.
  static constexpr const char* gathered_in = ".incoming";

  // `folders` (`outputs`, `logs`) are the only ones that may be written to.
  static Result<FileSink> open(std::filesystem::path job_directory,
                               std::vector<std::string> folders, SettledFiles earlier = {});
  ~FileSink();
  FileSink(FileSink&&) noexcept = default;

  // One FileData of the node with this index. A node sends one file after the other, its pieces in
  // order; offset 0 begins a file anew.
  Status accept(int node_index, const TreeEntry& entry, std::int64_t offset, std::string_view bytes,
                bool last);
  // This node has sent everything it will, and the others go on: moves its files to their names.
  Status finish_node(int node_index);
  // Every node has sent everything it will: moves the files to their names. An error is the first
  // of them; the other files are in place all the same.
  Status finish();
  // Files that got another name, links left out: one sentence each, for the job's log.
  const std::vector<std::string>& problems() const { return problems_; }
  // What is in place, with what was there `earlier`.
  const SettledFiles& settled() const { return settled_; }

 private:
  // Complete: a directory, a link, or a file that waits below `.incoming`.
  struct Arrived {
    TreeEntry entry;
    std::string gathered;
    std::string hash;
  };
  // The file that a node is sending.
  struct Arriving {
    std::string path;
    std::string gathered;
    Fd file;
    ContentHash content;
    std::int64_t received = 0;
  };

  FileSink(std::filesystem::path root, std::vector<std::string> folders, Fd root_file,
           SettledFiles earlier);
  std::filesystem::path incoming() const { return root_ / gathered_in; }
  Status check_entry(const TreeEntry& entry) const;
  Status begin_file(int node_index, const std::string& path);
  Status add_piece(int node_index, const TreeEntry& entry, std::int64_t offset,
                   std::string_view bytes, bool last);

  Status settle(int node_index, const Arrived& arrived);
  Status settle_directory(int node_index, const std::string& path, const TreeEntry& entry);
  Status settle_leaf(int node_index, const std::string& path, const Arrived& arrived);
  Status move_into_place(const Arrived& arrived, const std::string& path);
  bool is_taken(const std::string& path, bool by_directory) const;
  std::string renamed(int node_index, std::string path) const;

  std::filesystem::path root_;
  std::vector<std::string> folders_;
  Fd root_file_;  // closed: moved from
  std::map<int, Arriving> arriving_;
  std::map<int, std::map<std::string, Arrived>> arrived_;              // node index, path
  SettledFiles settled_;                                               // to compare
  std::map<int, std::map<std::string, std::string>> directory_names_;  // renamed ones, per node
  std::int64_t gathered_count_ = 0;
  std::vector<std::string> problems_;
};

// Results on their way back, the node's side: every file below some folders of the job's directory,
// in pieces for FileData. Files are opened without following links and may change or vanish
// meanwhile; what could not be sent is listed, never an end to the rest. One thread.

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
  // What `is_known` says of a file or a link is that it is not sent.
  using IsKnown = std::function<bool(const std::string& path, const struct stat& facts)>;
  static Result<CollectReader> open(const std::filesystem::path& job_directory,
                                    const std::vector<std::string>& folders,
                                    const IsKnown& is_known = {});

  const std::vector<TreeEntry>& entries() const { return entries_; }
  // The next piece of at most `limit_bytes`; nothing after the last one.
  std::optional<CollectPiece> next(std::size_t limit_bytes);
  // What could not be sent and why, one sentence each.
  const std::vector<std::string>& problems() const { return problems_.list; }
  // What is never sent, a sentence each: sockets, pipes, devices.
  const std::vector<std::string>& left_out() const { return left_out_.list; }

 private:
  CollectReader(Fd root, std::filesystem::path name);
  void list_directory(const std::string& path, const IsKnown& is_known);
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
