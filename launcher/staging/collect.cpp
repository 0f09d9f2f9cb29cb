#include "launcher/staging/collect.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>

#include "launcher/staging/beneath.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

}  // namespace

void CollectReader::list_directory(const std::string& path) {
  // Whoever gets it could not open it by its path, and the depth of this recursion ends here too.
  if (path.size() >= PATH_MAX) {
    return problems_.add("a directory of '" + (name_ / path.substr(0, 80)).string() +
                         "…' is not sent: its path has more than " + std::to_string(PATH_MAX) +
                         " bytes");
  }
  std::vector<std::string> names;
  Fd opened = open_directory_beneath(root_, path, false);
  if (!opened) return problems_.add(stage_error("send", name_ / path, errno).message);
  struct stat facts {};
  if (::fstat(opened.get(), &facts) != 0) {
    return problems_.add(stage_error("send", name_ / path, errno).message);
  }
  entries_.push_back(
      {TreeEntry::Kind::directory, path, static_cast<int>(facts.st_mode) & 0777, 0, {}, {}});
  {
    const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(::dup(opened.get())), ::closedir);
    if (!list) return problems_.add(stage_error("send", name_ / path, errno).message);
    names = names_in(list.get());
  }
  std::vector<std::string> below;
  for (const std::string& name : names) {
    struct stat inner {};
    const std::string entry = path + "/" + name;
    if (::fstatat(opened.get(), name.c_str(), &inner, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) problems_.add(stage_error("send", name_ / entry, errno).message);
    } else if (S_ISDIR(inner.st_mode)) {
      below.push_back(entry);
    } else {
      list_entry(opened, entry, name, inner);
    }
  }
  opened.reset();  // a deep tree must not use up the descriptors
  for (const std::string& inner : below) list_directory(inner);
}

void CollectReader::list_entry(const Fd& parent, const std::string& path, const std::string& last,
                               const struct stat& facts) {
  if (S_ISLNK(facts.st_mode)) return list_link(parent, path, last);
  if (!S_ISREG(facts.st_mode)) {
    return left_out_.add("'" + (name_ / path).string() + "' is not sent: it is not a regular file");
  }
  entries_.push_back(
      {TreeEntry::Kind::file, path, static_cast<int>(facts.st_mode) & 0777, facts.st_size, {}, {}});
}

void CollectReader::list_link(const Fd& parent, const std::string& path, const std::string& last) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(parent.get(), last.c_str(), target.data(), target.size());
  if (length < 0) return problems_.add(stage_error("send", name_ / path, errno).message);
  entries_.push_back({TreeEntry::Kind::link,
                      path,
                      0777,
                      0,
                      {},
                      std::string(target.data(), static_cast<std::size_t>(length))});
}

CollectReader::CollectReader(Fd root, fs::path name)
    : root_(std::move(root)), name_(std::move(name)) {}

Result<CollectReader> CollectReader::open(const fs::path& job_directory,
                                          const std::vector<std::string>& folders) {
  Fd root(::open(job_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return stage_error("read the directory", job_directory, errno);
  CollectReader reader(std::move(root), job_directory);
  for (const std::string& folder : folders) {
    struct stat facts {};
    if (::fstatat(reader.root_.get(), folder.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
      reader.list_directory(folder);
    }
  }
  reader.problems_.finish("problems");
  reader.left_out_.finish("problems");
  return reader;
}

void CollectReader::advance() {
  ++current_;
  file_.reset();
  offset_ = 0;
}

std::optional<CollectPiece> CollectReader::next(std::size_t limit_bytes) {
  while (current_ < entries_.size()) {
    const TreeEntry& entry = entries_[current_];
    if (entry.entry_kind != TreeEntry::Kind::file) {
      advance();
      return CollectPiece{entry, 0, {}, true};
    }
    if (auto piece = next_of_file(entry, limit_bytes)) return piece;
    advance();
  }
  return std::nullopt;
}

// Nothing: the file cannot be read (any further) and what was sent of it is worthless.
std::optional<CollectPiece> CollectReader::next_of_file(const TreeEntry& entry,
                                                        std::size_t limit_bytes) {
  if (!file_) file_ = open_file_beneath(root_, entry.path, O_RDONLY | O_NONBLOCK);
  CollectPiece piece{entry, offset_, {}, false};
  if (!file_ || !read_at(file_.get(), offset_, limit_bytes, piece.bytes)) {
    if (problems_.list.size() <= FirstSentences::limit) {
      problems_.list.push_back(stage_error("send", name_ / entry.path, errno).message);
    }
    return std::nullopt;
  }
  offset_ += static_cast<std::int64_t>(piece.bytes.size());
  // A file that grows while it is sent ends where it ended when it was listed.
  if (offset_ >= entry.size_bytes || piece.bytes.size() < limit_bytes) {
    const std::int64_t beyond = std::max<std::int64_t>(0, offset_ - entry.size_bytes);
    piece.bytes.resize(piece.bytes.size() - static_cast<std::size_t>(beyond));
    piece.last = true;
    advance();
  }
  return piece;
}

}  // namespace muster
