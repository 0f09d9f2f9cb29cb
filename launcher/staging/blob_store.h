// Content-addressed files: `<root>/<first two digits>/<hash>`, mode 0444. Filled by snapshots on
// the submitting machine and by BlobData on a node; read when trees are staged or materialised.
//
// Any number of processes may use one root: a blob is written under `<root>/tmp` and renamed into
// place. Nothing is fsync'd. Instead a blob is believed only while its size is the expected one and
// its modification time the constant that it was stored with: a file torn by a power loss, or
// written to through a hard link, counts as missing and is replaced. One object is used by one
// thread.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/fd.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"
#include "scheduler/model/retention.h"

namespace muster {

// The mark by which a file that nobody may write to shows that somebody did: a constant
// modification time (2001-09-09), which any write moves.
inline constexpr std::time_t untouched_time = 1'000'000'000;

inline bool mark_untouched(const Fd& file) {
  const std::array<timespec, 2> times{timespec{0, UTIME_NOW}, timespec{untouched_time, 0}};
  return ::futimens(file.get(), times.data()) == 0;
}

inline bool is_untouched(const struct stat& facts) {
  return S_ISREG(facts.st_mode) && facts.st_mtim.tv_sec == untouched_time &&
         facts.st_mtim.tv_nsec == 0;
}

struct StoredBlob {
  std::string hash;
  std::int64_t size_bytes = 0;
};

// One blob arriving in pieces. Dropping it before `finish` leaves nothing behind.
class BlobWriter {
 public:
  ~BlobWriter();
  BlobWriter(BlobWriter&&) noexcept = default;

  // Pieces come in order: `offset` must be the number of bytes so far.
  Status append(std::int64_t offset, std::string_view bytes);
  // Puts the blob into the store if its bytes have the promised hash; discards it otherwise.
  Status finish();

 private:
  friend class BlobStore;
  BlobWriter(std::filesystem::path root, std::string hash, std::filesystem::path temporary,
             Fd file);

  std::filesystem::path root_;
  std::string expected_hash_;
  std::filesystem::path temporary_;
  Fd file_;  // closed: nothing to discard
  ContentHash hash_;
  std::int64_t size_bytes_ = 0;
};

class BlobStore {
 public:
  // Creates what is missing, and removes unfinished blobs that are older than a day.
  static Result<BlobStore> open(std::filesystem::path root);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path path_of(const std::string& hash) const;
  // There, whole and untouched, with this size; from here on it counts as used.
  bool contains(const std::string& hash, std::int64_t size_bytes) const;

  // Copies the bytes of an open file (a reflink where the file system can). What is stored is what
  // was hashed, even when somebody writes to the file meanwhile. `name` is for sentences.
  Result<StoredBlob> put_open_file(const Fd& source, const std::filesystem::path& name) const;
  Result<StoredBlob> put_bytes(std::string_view bytes) const;
  Result<BlobWriter> writer(const std::string& hash) const;

  // Up to `limit_bytes` of the blob from `offset`; fewer, or none, only at its end.
  Result<std::string> read(const std::string& hash, std::int64_t offset,
                           std::size_t limit_bytes) const;

 private:
  explicit BlobStore(std::filesystem::path root) : root_(std::move(root)) {}

  std::filesystem::path root_;
};

// The node's side of BlobData: pieces of many blobs, in order within a blob, into a BlobStore. A
// blob that begins again at offset 0 (after a reconnection) is started afresh; one that is in the
// store already is ignored. Owned by the agent's staging; one thread.
class BlobReceiver {
 public:
  explicit BlobReceiver(const BlobStore& store) : store_(store) {}

  // True: this was the last piece and the blob is now in the store.
  Result<bool> accept(const BlobData& piece, std::string_view payload);
  // Forgets every unfinished blob: the sender is gone.
  void reset() { writers_.clear(); }

 private:
  const BlobStore& store_;
  std::map<std::string, BlobWriter> writers_;
};

// The sentence for a failed call on a file, any thread:
// "cannot <attempt> '<path>': <why>", and for a full file system how much is free and what to do.
Error stage_error(std::string_view attempt, const std::filesystem::path& path, int error_number);

// What went wrong many times, for a person: the first sentences, and how many more there were.
struct FirstSentences {
  static constexpr std::size_t limit = 20;
  std::vector<std::string> list{};
  std::size_t further = 0;

  void add(std::string sentence);
  void finish(const std::string& what);  // "and 7 more such <what>"
};

// "3.2 GiB", "17 bytes": for sentences.
std::string readable_bytes(std::int64_t bytes);

// Removes blobs that nobody needs. Others may use the store meanwhile: whoever asks for a blob
// marks it as used (BlobStore::contains), and one that was marked since it was looked at is put
// back. One that a killed sweep had taken out is put back by the next who opens the store.
struct BlobSweep {
  std::function<bool(const std::string& hash)> is_needed;
  std::time_t unused_since = 0;  // one that was used later stays
  bool dry_run = false;
};

// Blobs that a job's input on this machine is linked to stay too.
Result<Removed> sweep_blobs(const std::filesystem::path& root, const BlobSweep& sweep);

// Writing files that are mostly empty: blocks of zeros become holes again, as on the machine that
// the file comes from. For new files only: what is not written is taken to be zero.

// All of `bytes` at the file's position, which moves past them; false leaves errno.
bool write_sparse(int fd, std::string_view bytes);

// The file ends at its position, also where a hole ends it.
bool end_sparse(int fd);

}  // namespace muster
