#include "launcher/staging/blob_store.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include "scheduler/text/duration.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece_bytes = 1 << 20;
constexpr std::chrono::hours unfinished_after{24};

fs::path blob_path(const fs::path& root, const std::string& hash) {
  return root / hash.substr(0, 2) / hash;
}

// Several machines may share one home directory, so a process id is not unique enough.
fs::path temporary_path(const fs::path& root) {
  static std::mt19937_64 random{std::random_device{}()};
  return root / "tmp" / (std::to_string(::getpid()) + "-" + std::to_string(random()));
}

Result<Fd> create(const fs::path& file) {
  Fd opened(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!opened) return stage_error("create", file, errno);
  return opened;
}

void remove_unfinished(const fs::path& directory) {
  const auto limit_s = ::time(nullptr) - std::chrono::seconds(unfinished_after).count();
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    struct stat facts {};
    if (::lstat(it->path().c_str(), &facts) != 0) continue;
    // A whole blob that another process is about to name has the mark for its time of writing.
    const timespec& written = is_untouched(facts) ? facts.st_ctim : facts.st_mtim;
    if (written.tv_sec < limit_s) ::unlink(it->path().c_str());
  }
}

// A blob that is used is marked as such once a minute: sweep_blobs keeps it. False: it is gone.
constexpr std::time_t use_marked_s = 60;

bool mark_used(const fs::path& path, const struct stat& facts) {
  if (facts.st_atim.tv_sec > ::time(nullptr) - use_marked_s) return true;
  const std::array<timespec, 2> times{timespec{0, UTIME_NOW}, timespec{0, UTIME_OMIT}};
  const int done = ::utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  return done == 0 || errno != ENOENT;
}

// Gives a finished file its name in the store.
Status settle(const fs::path& root, const std::string& hash, const fs::path& temporary,
              const Fd& file) {
  if (::fchmod(file.get(), 0444) != 0 || !mark_untouched(file)) {
    return stage_error("finish", temporary, errno);
  }
  const fs::path path = blob_path(root, hash);
  if (::rename(temporary.c_str(), path.c_str()) == 0) return Done{};
  if (errno != ENOENT) return stage_error("store", path, errno);
  if (::mkdir(path.parent_path().c_str(), 0755) != 0 && errno != EEXIST) {
    return stage_error("create", path.parent_path(), errno);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return stage_error("store", path, errno);
  return Done{};
}

// Hashes `source` to its end; every byte hashed is also given to `keep`, which may fail.
template <class Keep>
Result<StoredBlob> hash_to_end(const Fd& source, const fs::path& name, Keep keep) {
  ContentHash hash;
  StoredBlob blob;
  std::string piece;
  do {
    if (!read_at(source.get(), blob.size_bytes, piece_bytes, piece)) {
      return stage_error("read", name, errno);
    }
    hash.add(piece);
    if (Status kept = keep(piece); !kept) return kept.error();
    blob.size_bytes += static_cast<std::int64_t>(piece.size());
  } while (piece.size() == piece_bytes);
  blob.hash = hash.finish();
  return blob;
}

// The bytes of `source` into `target`, hashed as they are copied, or cloned first and then hashed.
Result<StoredBlob> copy_and_hash(const Fd& source, const fs::path& name, Fd& target,
                                 const fs::path& target_name) {
  if (::ioctl(target.get(), FICLONE, source.get()) == 0) {
    return hash_to_end(target, target_name, [](const std::string&) -> Status { return Done{}; });
  }
  return hash_to_end(source, name, [&](const std::string& piece) -> Status {
    const bool is_last = piece.size() < piece_bytes;
    if (write_sparse(target.get(), piece) && (!is_last || end_sparse(target.get()))) return Done{};
    return stage_error("write", target_name, errno);
  });
}

// Free bytes of the file system that holds `path` or, where that does not exist, its nearest
// parent.
std::string free_space_near(fs::path path) {
  struct statvfs space {};
  while (::statvfs(path.c_str(), &space) != 0) {
    if (!path.has_relative_path()) return "an unknown amount";
    path = path.parent_path();
  }
  return readable_bytes(static_cast<std::int64_t>(space.f_bavail * space.f_frsize));
}

std::string reason(const fs::path& path, int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "the file system is full (" + free_space_near(path) +
             " free); make room and try again";
    case EDQUOT:
      return "the disk quota is used up; make room and try again";
    case EIO:
      return "the disk reported an input/output error; see the kernel log of this machine";
    default:
      return std::strerror(error_number);
  }
}

constexpr const char* swept_prefix = "swept-";

// Where somebody has stored it again meanwhile that one stays, with the mark of its use.
void put_back(const fs::path& out, const fs::path& place) {
  if (::link(out.c_str(), place.c_str()) == 0 || errno == EEXIST) ::unlink(out.c_str());
}

void put_back_swept(const fs::path& root) {
  std::error_code code;
  for (fs::directory_iterator it(root / "tmp", code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    const std::string hash =
        name.starts_with(swept_prefix) ? name.substr(std::string(swept_prefix).size()) : "";
    if (is_content_hash(hash)) put_back(it->path(), blob_path(root, hash));
  }
}

bool is_unused(const fs::path& path, std::time_t since, struct stat& facts) {
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 1 &&
         facts.st_atim.tv_sec < since;
}

// A rename leaves the mark of the latest use as it is.
bool remove_blob(const fs::path& root, const std::string& hash, std::time_t since) {
  const fs::path out = root / "tmp" / (swept_prefix + hash);
  if (::rename(blob_path(root, hash).c_str(), out.c_str()) != 0) return false;
  struct stat facts {};
  if (is_unused(out, since, facts)) return ::unlink(out.c_str()) == 0;
  put_back(out, blob_path(root, hash));
  return false;
}

void sweep_one(const fs::path& root, const BlobSweep& sweep, const std::string& hash,
               Removed& removed) {
  struct stat facts {};
  if (!is_content_hash(hash) || !is_unused(blob_path(root, hash), sweep.unused_since, facts))
    return;
  if (sweep.is_needed(hash)) return;
  if (!sweep.dry_run && !remove_blob(root, hash, sweep.unused_since)) return;
  removed.count += 1;
  removed.bytes += facts.st_size;
}

constexpr std::size_t block_bytes = 4096;

bool is_zero(std::string_view bytes) {
  return bytes.front() == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

Result<Removed> sweep_blobs(const fs::path& root, const BlobSweep& sweep) {
  Removed removed{"files that no job needs", 0, 0};
  std::error_code code;
  if (!fs::exists(root, code)) return removed;
  for (const auto& group : fs::directory_iterator(root, code)) {
    const bool is_group = group.path().filename().string().size() == 2 &&
                          fs::is_directory(group.symlink_status(code));
    if (!is_group) continue;
    std::error_code group_code;
    for (fs::directory_iterator blob(group.path(), group_code), end; !group_code && blob != end;
         blob.increment(group_code)) {
      sweep_one(root, sweep, blob->path().filename().string(), removed);
    }
    if (group_code) return stage_error("read", group.path(), group_code.value());
  }
  if (code) return stage_error("read", root, code.value());
  return removed;
}

BlobWriter::BlobWriter(fs::path root, std::string hash, fs::path temporary, Fd file)
    : root_(std::move(root)),
      expected_hash_(std::move(hash)),
      temporary_(std::move(temporary)),
      file_(std::move(file)) {}

BlobWriter::~BlobWriter() {
  if (file_) ::unlink(temporary_.c_str());
}

Status BlobWriter::append(std::int64_t offset, std::string_view bytes) {
  if (offset != size_bytes_) {
    return Error{"blob " + expected_hash_ + ": a piece at offset " + std::to_string(offset) +
                 " came after " + std::to_string(size_bytes_) + " bytes"};
  }
  if (!write_sparse(file_.get(), bytes)) {
    return stage_error("write", blob_path(root_, expected_hash_), errno);
  }
  hash_.add(bytes);
  size_bytes_ += static_cast<std::int64_t>(bytes.size());
  return Done{};
}

Status BlobWriter::finish() {
  const std::string hash = hash_.finish();
  if (hash != expected_hash_) {
    return Error{"blob " + expected_hash_ + " arrived damaged: its " + std::to_string(size_bytes_) +
                 " bytes have the hash " + hash};
  }
  if (!end_sparse(file_.get())) return stage_error("write", blob_path(root_, hash), errno);
  Status settled = settle(root_, hash, temporary_, file_);
  if (settled) file_.reset();
  return settled;
}

Result<BlobStore> BlobStore::open(fs::path root) {
  std::error_code code;
  fs::create_directories(root.parent_path(), code);
  ::mkdir(root.c_str(), 0700);  // code and data of jobs are the user's alone
  fs::create_directories(root / "tmp", code);
  if (code) return stage_error("create", root / "tmp", code.value());
  put_back_swept(root);
  remove_unfinished(root / "tmp");
  return BlobStore(std::move(root));
}

fs::path BlobStore::path_of(const std::string& hash) const {
  return blob_path(root_, hash);
}

bool BlobStore::contains(const std::string& hash, std::int64_t size_bytes) const {
  struct stat facts {};
  if (!is_content_hash(hash)) return false;
  const fs::path path = path_of(hash);
  return ::lstat(path.c_str(), &facts) == 0 && facts.st_size == size_bytes && is_untouched(facts) &&
         mark_used(path, facts);
}

Result<StoredBlob> BlobStore::put_open_file(const Fd& source, const fs::path& name) const {
  struct stat facts {};
  if (::fstat(source.get(), &facts) != 0) return stage_error("read", name, errno);
  if (!S_ISREG(facts.st_mode)) return Error{"'" + name.string() + "' is not a regular file"};

  std::string beginning;
  if (!read_at(source.get(), 0, piece_bytes, beginning)) return stage_error("read", name, errno);
  if (beginning.size() < piece_bytes) return put_bytes(beginning);

  const fs::path temporary = temporary_path(root_);
  auto target = create(temporary);
  if (!target) return target.error();
  auto blob = copy_and_hash(source, name, *target, temporary);
  if (blob && contains(blob->hash, blob->size_bytes)) {
    ::unlink(temporary.c_str());
    return blob;
  }
  Status settled = blob ? settle(root_, blob->hash, temporary, *target) : Status(blob.error());
  if (settled) return blob;
  ::unlink(temporary.c_str());
  return settled.error();
}

Result<StoredBlob> BlobStore::put_bytes(std::string_view bytes) const {
  StoredBlob blob{content_hash_of(bytes), static_cast<std::int64_t>(bytes.size())};
  if (contains(blob.hash, blob.size_bytes)) return blob;
  auto arriving = writer(blob.hash);
  if (!arriving) return arriving.error();
  if (Status added = arriving->append(0, bytes); !added) return added.error();
  if (Status finished = arriving->finish(); !finished) return finished.error();
  return blob;
}

Result<BlobWriter> BlobStore::writer(const std::string& hash) const {
  if (!is_content_hash(hash)) return Error{"'" + hash + "' is not the hash of a blob"};
  fs::path temporary = temporary_path(root_);
  auto file = create(temporary);
  if (!file) return file.error();
  return BlobWriter(root_, hash, std::move(temporary), std::move(*file));
}

Result<std::string> BlobStore::read(const std::string& hash, std::int64_t offset,
                                    std::size_t limit_bytes) const {
  if (!is_content_hash(hash)) return Error{"'" + hash + "' is not the hash of a blob"};
  const fs::path path = path_of(hash);
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string bytes;
  if (!file || !read_at(file.get(), offset, limit_bytes, bytes)) {
    return stage_error("read", path, errno);
  }
  return bytes;
}

Result<bool> BlobReceiver::accept(const BlobData& piece, std::string_view payload) {
  if (piece.offset == 0) {
    writers_.erase(piece.hash);
    auto writer = store_.writer(piece.hash);
    if (!writer) return writer.error();
    writers_.emplace(piece.hash, std::move(*writer));
  }
  const auto found = writers_.find(piece.hash);
  if (found == writers_.end()) {
    return Error{"a piece of blob " + piece.hash + " at offset " + std::to_string(piece.offset) +
                 " came without its beginning"};
  }
  Status status = found->second.append(piece.offset, payload);
  if (status && piece.last) status = found->second.finish();
  if (!status || piece.last) writers_.erase(found);
  if (!status) return status.error();
  return piece.last;
}

Error stage_error(std::string_view attempt, const fs::path& path, int error_number) {
  return Error{"cannot " + std::string(attempt) + " '" + path.string() +
               "': " + reason(path, error_number)};
}

void FirstSentences::add(std::string sentence) {
  if (list.size() < limit)
    list.push_back(std::move(sentence));
  else
    ++further;
}

void FirstSentences::finish(const std::string& what) {
  if (further != 0) list.push_back("and " + std::to_string(further) + " more such " + what);
}

std::string readable_bytes(std::int64_t bytes) {
  if (bytes >= 1024) return bytes_text(static_cast<std::uint64_t>(bytes));
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

bool write_sparse(int fd, std::string_view bytes) {
  const off_t position = ::lseek(fd, 0, SEEK_CUR);
  if (position < 0) return false;
  std::size_t to_boundary = block_bytes - static_cast<std::size_t>(position) % block_bytes;
  while (!bytes.empty()) {
    std::size_t run = std::min(to_boundary, bytes.size());
    const bool is_hole = is_zero(bytes.substr(0, run));
    while (run < bytes.size() && is_zero(bytes.substr(run, block_bytes)) == is_hole) {
      run += std::min(block_bytes, bytes.size() - run);
    }
    const bool done = is_hole ? ::lseek(fd, static_cast<off_t>(run), SEEK_CUR) >= 0
                              : write_all(fd, bytes.substr(0, run));
    if (!done) return false;
    bytes.remove_prefix(run);
    to_boundary = block_bytes;
  }
  return true;
}

bool end_sparse(int fd) {
  const off_t position = ::lseek(fd, 0, SEEK_CUR);
  return position >= 0 && ::ftruncate(fd, position) == 0;
}

}  // namespace muster
