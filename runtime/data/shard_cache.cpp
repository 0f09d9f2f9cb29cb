#include "runtime/data/shard_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/data/token_dataset.h"
#include "runtime/protocol/crc32c.h"
#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
#endif

struct Pages {
  char* begin = nullptr;
  std::size_t bytes = 0;
};

Pages pages_around(const Mapping& memory, std::uint64_t offset, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  return {static_cast<char*>(memory.get()) + begin, offset + bytes - begin};
}

template <class Number>
void widen(const char* from, std::span<std::uint32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Number number;
    std::memcpy(&number, from + i * sizeof number, sizeof number);
    tokens[i] = number;
  }
}

namespace fs = std::filesystem;

constexpr auto look_again = std::chrono::milliseconds(200);  // at a copy that another makes
constexpr const char* room_lock_name = ".room.lock";

// A descriptor and the flock taken through it; both end with it.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags, int lock)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)), error_(fd_ ? 0 : errno) {
    while (fd_ && ::flock(fd_.get(), lock) != 0) {
      if (errno == EINTR) continue;
      error_ = errno;
      ::close(fd_.release());
    }
  }

  bool is_held() const { return bool(fd_); }
  bool is_elsewhere() const { return error_ == EWOULDBLOCK; }
  int fd() const { return fd_.get(); }
  Descriptor release() { return std::move(fd_); }
  std::string error() const { return std::strerror(error_); }

 private:
  Descriptor fd_;
  int error_;
};

std::uint64_t now_ns() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(
      duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
}

std::string key_of(const DatasetShard& shard) {
  TokenDataset alone;
  alone.shards = {shard};
  const auto* bytes = reinterpret_cast<const char*>(shard.chunk_crc32c.data());
  const std::uint64_t hash = fnv1a64({bytes, shard.chunk_crc32c.size() * 4});
  return printed("%016llx%08x-%llu", static_cast<unsigned long long>(hash), dataset_identity(alone),
                 static_cast<unsigned long long>(shard.layout.file_bytes));
}

// The lock file of a copy says which file was found good, and when.
void write_stamp(int lock, std::uint64_t inode) {
  const std::string text = printed("%020llu %020llu\n", static_cast<unsigned long long>(inode),
                                   static_cast<unsigned long long>(now_ns()));
  // Where it cannot, the copy is verified again.
  (void)!::pwrite(lock, text.data(), text.size(), 0);
}

bool is_stamped(int lock, std::uint64_t inode, std::uint64_t since_ns) {
  char text[64] = {};
  if (::pread(lock, text, sizeof text - 1, 0) <= 0) return false;
  unsigned long long stamped_inode = 0;
  unsigned long long at_ns = 0;
  if (std::sscanf(text, "%llu %llu", &stamped_inode, &at_ns) != 2) return false;
  return stamped_inode == inode && at_ns >= since_ns;
}

// Each copy that is read needs a descriptor, for its lock.
void allow_many_descriptors() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct CachedCopy {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

fs::path lock_of(const fs::path& copy) {
  return fs::path(copy).replace_extension(".lock");
}

bool remove_unless_used(const fs::path& copy) {
  const LockedFile unused(copy.string(), O_RDONLY, LOCK_EX | LOCK_NB);
  std::error_code code;
  return unused.is_held() && fs::remove(copy, code);
}

// What a process left behind that was killed while it copied.
bool remove_if_left(const fs::path& unfinished) {
  const LockedFile lock(lock_of(unfinished).string(), O_RDWR | O_CREAT, LOCK_EX | LOCK_NB);
  std::error_code code;
  return lock.is_held() && fs::remove(unfinished, code);
}

}  // namespace

Checked<MappedFile> MappedFile::open(const std::string& path, std::uint64_t bytes) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return CheckpointFault{path + ": open failed: " + std::strerror(errno)};
  auto file = take(std::move(fd), path, bytes);
  // The mapping stays without it, and a process may have few descriptors.
  if (file) Descriptor(std::move(file.value().fd_));
  return file;
}

Checked<MappedFile> MappedFile::take(Descriptor fd, const std::string& path, std::uint64_t bytes) {
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != bytes) {
    return CheckpointFault{path + ": is not " + std::to_string(bytes) + " bytes long", true};
  }
  Mapping memory(bytes, PROT_READ, MAP_SHARED, fd.get());
  if (memory.get() == nullptr) {
    return CheckpointFault{path + ": mmap failed: " + std::strerror(errno)};
  }
  // Samples lie all over the file: what follows one is not read next.
  ::madvise(memory.get(), bytes, MADV_RANDOM);
  return MappedFile(std::move(fd), path, std::move(memory));
}

void MappedFile::will_need(std::uint64_t offset, std::uint64_t bytes) const {
  const Pages pages = pages_around(memory_, offset, bytes);
  ::madvise(pages.begin, pages.bytes, MADV_WILLNEED);
}

bool MappedFile::load(std::uint64_t offset, std::uint64_t bytes) const {
  const Pages pages = pages_around(memory_, offset, bytes);
  int result = 0;
  do {
    result = ::madvise(pages.begin, pages.bytes, MADV_POPULATE_READ);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL;  // EINVAL: a kernel that does not know the advice
}

ShardTokens::ShardTokens(std::uint64_t vocabulary, Warn warn)
    : vocabulary_(vocabulary), warn_(std::move(warn)) {}

Checked<std::unique_ptr<ShardTokens>> ShardTokens::open(const TokenDataset& dataset,
                                                        std::uint64_t vocabulary, Warn warn) {
  std::unique_ptr<ShardTokens> line(new ShardTokens(vocabulary, std::move(warn)));
  for (const DatasetShard& shard : dataset.shards) {
    auto file = MappedFile::open(shard.path, shard.layout.file_bytes);
    if (!file) return file.fault();
    line->shards_.push_back(std::make_unique<Shard>(shard.layout, std::move(file.value())));
    line->begins_.push_back(line->begins_.back() + shard.layout.tokens);
  }
  return line;
}

ShardTokens::Part ShardTokens::part_at(std::uint64_t at, std::uint64_t count) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), at);
  const auto shard = static_cast<std::size_t>(after - begins_.begin() - 1);
  const std::uint64_t inside = at - begins_[shard];
  return {shard, token_shard_header_bytes + inside * shards_[shard]->layout.token_bytes,
          std::min(count, *after - at)};
}

void ShardTokens::expect(std::uint64_t at, std::uint64_t count) const {
  while (count > 0) {
    const Part part = part_at(at, count);
    current(part.shard)
        .will_need(part.offset, part.tokens * shards_[part.shard]->layout.token_bytes);
    at += part.tokens;
    count -= part.tokens;
  }
}

// The file to read from, its pages in memory.
const MappedFile& ShardTokens::loaded(const Part& part) const {
  const Shard& shard = *shards_[part.shard];
  const std::uint64_t bytes = part.tokens * shard.layout.token_bytes;
  const MappedFile* file = &current(part.shard);
  if (file->load(part.offset, bytes)) return *file;
  if (file != &shard.source) {
    warn_(file->path() + ": cannot be read any more; the tokens come from " + shard.source.path() +
          " again");
    shard.current.store(&shard.source, std::memory_order_release);
    if (shard.source.load(part.offset, bytes)) return shard.source;
  }
  throw DataError(shard.source.path() + ": byte " + std::to_string(part.offset) + ": the " +
                  std::to_string(bytes) +
                  " bytes from here cannot be read: the file became shorter, or its disk fails");
}

void ShardTokens::copy_part(const Part& part, std::span<std::uint32_t> tokens) const {
  const MappedFile& file = loaded(part);
  const std::uint64_t token_bytes = shards_[part.shard]->layout.token_bytes;
  if (token_bytes == 2) widen<std::uint16_t>(file.data() + part.offset, tokens);
  if (token_bytes == 4) widen<std::uint32_t>(file.data() + part.offset, tokens);
  std::uint32_t highest = 0;
  for (const std::uint32_t token : tokens) highest = std::max(highest, token);
  if (highest < vocabulary_) return;
  const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                  [&](std::uint32_t token) { return token >= vocabulary_; });
  const auto index = static_cast<std::uint64_t>(wrong - tokens.begin());
  throw DataError(file.path() + ": byte " + std::to_string(part.offset + index * token_bytes) +
                  ": token " + std::to_string(*wrong) + " is outside the vocabulary of " +
                  std::to_string(vocabulary_));
}

void ShardTokens::copy(std::uint64_t at, std::span<std::uint32_t> tokens) const {
  while (!tokens.empty()) {
    const Part part = part_at(at, tokens.size());
    copy_part(part, tokens.first(part.tokens));
    at += part.tokens;
    tokens = tokens.subspan(part.tokens);
  }
}

void ShardTokens::use_copy(std::size_t shard, MappedFile copy) {
  Shard& held = *shards_[shard];
  held.copy = std::make_unique<MappedFile>(std::move(copy));
  held.current.store(held.copy.get(), std::memory_order_release);
}

ShardCache::ShardCache(const TokenDataset& dataset, ShardCacheSettings settings,
                       ShardTokens& tokens, Warn warn)
    : dataset_(dataset),
      settings_(std::move(settings)),
      tokens_(tokens),
      warn_(std::move(warn)),
      started_ns_(now_ns()) {
  for (const DatasetShard& shard : dataset_.shards) keys_.push_back(key_of(shard));
  allow_many_descriptors();
  thread_ = std::jthread([this](const std::stop_token& ended) {
    ended_ = ended;
    serve();
  });
}

void ShardCache::wait_until_settled() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_settled_; });
}

void ShardCache::serve() {
  std::vector<std::size_t> open(dataset_.shards.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  const auto middle = static_cast<std::ptrdiff_t>(settings_.first_shard % open.size());
  std::rotate(open.begin(), open.begin() + middle, open.end());
  if (auto made = make_checkpoint_directory(settings_.directory); !made) {
    warn_once(made.reason());
    open.clear();
  }
  while (!open.empty() && !is_ended()) {
    const std::size_t before = open.size();
    std::erase_if(open, [this](std::size_t shard) {
      return !is_ended() && settle(shard) == Outcome::settled;
    });
    waits_ = open.size() == before;
    if (!waits_) continue;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, ended_, look_again, [this] { return is_ended(); });
  }
  const std::lock_guard lock(mutex_);
  is_settled_ = true;
  changed_.notify_all();
}

ShardCache::Outcome ShardCache::settle(std::size_t shard) {
  const LockedFile lock(path_of(shard, ".lock"), O_RDWR | O_CREAT, LOCK_EX | LOCK_NB);
  if (!lock.is_held()) {
    if (lock.is_elsewhere()) return Outcome::busy;
    warn_once(path_of(shard, ".lock") + " cannot be locked: " + lock.error());
    return Outcome::settled;
  }
  if (adopt(shard, lock.fd()) || !fills_ || !fill(shard, lock.fd())) return Outcome::settled;
  adopt(shard, lock.fd());
  return Outcome::settled;
}

// Reads from the copy on this node from now on, if there is one and it is good.
bool ShardCache::adopt(std::size_t shard, int lock) {
  const std::string path = path_of(shard, ".tokens");
  LockedFile copy(path, O_RDONLY, LOCK_SH | LOCK_NB);
  struct stat facts {};
  if (!copy.is_held() || ::fstat(copy.fd(), &facts) != 0 || facts.st_nlink == 0) return false;
  if (!is_stamped(lock, facts.st_ino, started_ns_)) {
    const auto good = verify(shard);
    if (!good && is_ended()) return false;
    if (!good) {
      warn_once("the copy is not good and is made again: " + good.reason());
      std::error_code code;
      fs::remove(path, code);
      return false;
    }
    write_stamp(lock, facts.st_ino);
  }
  ::futimens(lock, nullptr);
  auto mapped = MappedFile::take(copy.release(), path, dataset_.shards[shard].layout.file_bytes);
  if (!mapped) {
    warn_once(mapped.reason());
    return false;
  }
  tokens_.use_copy(shard, std::move(mapped.value()));
  ++copies_;
  return true;
}

Checked<NoValue> ShardCache::verify(std::size_t shard) {
  TokenDataset copy;
  copy.shards = {dataset_.shards[shard]};
  copy.shards[0].path = path_of(shard, ".tokens");
  constexpr auto any_token = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t chunk = 0; chunk < copy.chunks(); ++chunk) {
    if (is_ended()) return CheckpointFault{"the run ended"};
    const auto good = verify_chunks(copy, {chunk, chunk + 1}, any_token, 1);
    if (!good) return good.fault();
  }
  return NoValue{};
}

// Whether there is a good copy now.
bool ShardCache::fill(std::size_t shard, int lock) {
  const std::string temporary = path_of(shard, ".tmp");
  std::error_code code;
  fs::remove(temporary, code);  // left by a process that was killed
  auto file = reserve(shard);
  if (file && !file.value()) return false;
  Checked<NoValue> done = NoValue{};
  if (!file) {
    done = file.fault();
  } else {
    done = copy(dataset_.shards[shard], *file.value());
    if (done) done = file.value()->sync_and_close();
  }
  if (done) {
    fs::rename(temporary, path_of(shard, ".tokens"), code);
    if (code) done = CheckpointFault{temporary + ": cannot be renamed: " + code.message()};
  }
  struct stat facts {};
  if (done && ::stat(path_of(shard, ".tokens").c_str(), &facts) == 0) {
    write_stamp(lock, facts.st_ino);
  }
  if (done) return true;
  fs::remove(temporary, code);
  if (!is_ended()) warn_once(done.reason() + "; these tokens are read from where they are");
  fills_ = false;
  return false;
}

// A file of the shard's size, its room taken; none when it does not fit under the limit.
Checked<std::optional<CheckpointFile>> ShardCache::reserve(std::size_t shard) {
  const std::string room = settings_.directory + "/" + room_lock_name;
  const LockedFile lock(room, O_RDWR | O_CREAT, LOCK_EX);
  if (!lock.is_held()) return CheckpointFault{room + " cannot be locked: " + lock.error()};
  const std::uint64_t bytes = dataset_.shards[shard].layout.file_bytes;
  bool fits = true;
  if (auto made = make_room(bytes, fits); !made) return made.fault();
  if (!fits) return std::optional<CheckpointFile>();
  auto file = CheckpointFile::create(path_of(shard, ".tmp"), bytes);
  if (!file) return file.fault();
  return std::optional(std::move(file.value()));
}

Checked<NoValue> ShardCache::make_room(std::uint64_t bytes, bool& fits) {
  std::vector<CachedCopy> copies;
  std::uint64_t held = 0;
  std::error_code code;
  fs::directory_iterator at(settings_.directory, code);
  for (const fs::directory_iterator end; !code && at != end; at.increment(code)) {
    const fs::directory_entry& entry = *at;
    const fs::path extension = entry.path().extension();
    if (extension != ".tokens" && extension != ".tmp") continue;
    if (extension == ".tmp" && remove_if_left(entry.path())) continue;
    std::error_code gone;
    const std::uint64_t its_bytes = entry.file_size(gone);
    if (gone) continue;
    held += its_bytes;
    if (extension == ".tmp") continue;
    copies.push_back({entry.path(), its_bytes, fs::last_write_time(lock_of(entry.path()), gone)});
  }
  if (code) return CheckpointFault{settings_.directory + ": cannot be listed: " + code.message()};
  const std::uint64_t limit = settings_.limit_bytes;
  std::uint64_t free_bytes = fs::space(settings_.directory, code).available;
  std::sort(copies.begin(), copies.end(), [](const CachedCopy& a, const CachedCopy& b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  for (const CachedCopy& copy : copies) {
    const bool is_room = limit == 0 || held + bytes <= limit;
    if (is_room && bytes <= free_bytes) break;
    if (!remove_unless_used(copy.path)) continue;
    held -= copy.bytes;
    free_bytes += copy.bytes;
  }
  fits = limit == 0 || held + bytes <= limit;
  return NoValue{};
}

Checked<NoValue> ShardCache::copy(const DatasetShard& shard, CheckpointFile& to) {
  const auto from = CheckpointFile::open_for_reading(shard.path);
  if (!from) return from.fault();
  std::string buffer(token_chunk_bytes, '\0');
  for (std::uint64_t chunk = 0; chunk < shard.layout.chunks(); ++chunk) {
    if (is_ended()) return CheckpointFault{"the run ended"};
    const std::uint64_t at = chunk * token_chunk_bytes;
    const std::uint64_t bytes = std::min(token_chunk_bytes, shard.layout.file_bytes - at);
    if (auto got = from.value().read_at(at, buffer.data(), bytes); !got) return got.fault();
    if (crc32c({buffer.data(), bytes}) != shard.chunk_crc32c[chunk]) {
      return damaged_token_file(shard.path, at, "the checksum of the MiB from here is wrong");
    }
    if (auto put = to.write_at(at, buffer.data(), bytes); !put) return put.fault();
  }
  return NoValue{};
}

}  // namespace muster
