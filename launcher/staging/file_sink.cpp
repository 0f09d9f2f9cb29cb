#include "launcher/staging/file_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <utility>

#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/materialize.h"
#include "launcher/staging/trees_file.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::string name_of_node(const std::string& path, int node_index) {
  return path + ".node" + std::to_string(node_index);
}

// Whether a link at `path` to `target` stays below the first component of `path`, whatever other
// links lie there: it may climb only before it names anything, for `..` behind a name that is a
// link itself leads to the parent of somewhere else.
bool link_stays_inside(std::string_view path, const fs::path& target) {
  if (target.is_absolute() || target.empty()) return false;
  std::ptrdiff_t depth = std::count(path.begin(), path.end(), '/') - 1;
  bool has_named = false;
  for (const fs::path& part : target) {
    if (part == "..")
      --depth;
    else if (part != "." && !part.empty())
      has_named = true;
    if (depth < 0 || (has_named && part == "..")) return false;
  }
  return true;
}

std::string identity(const TreeEntry& entry, const std::string& hash) {
  if (entry.entry_kind == TreeEntry::Kind::directory) return "directory";
  return entry.entry_kind == TreeEntry::Kind::link ? "link to " + entry.target : "file " + hash;
}

constexpr int settled_files_version = 1;

}  // namespace

FileSink::FileSink(fs::path root, std::vector<std::string> folders, Fd root_file,
                   SettledFiles earlier)
    : root_(std::move(root)),
      folders_(std::move(folders)),
      root_file_(std::move(root_file)),
      settled_(std::move(earlier)) {}

FileSink::~FileSink() {
  if (root_file_) (void)remove_tree(incoming());
}

Result<FileSink> FileSink::open(fs::path job_directory, std::vector<std::string> folders,
                                SettledFiles earlier) {
  std::error_code code;
  fs::create_directories(job_directory, code);
  if (code) return stage_error("create", job_directory, code.value());
  Fd root(::open(job_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return stage_error("open", job_directory, errno);
  FileSink sink(std::move(job_directory), std::move(folders), std::move(root), std::move(earlier));
  if (Status removed = remove_tree(sink.incoming()); !removed) return removed.error();
  if (::mkdir(sink.incoming().c_str(), 0700) != 0) {
    return stage_error("create", sink.incoming(), errno);
  }
  return sink;
}

// ---- gathering

Status FileSink::check_entry(const TreeEntry& entry) const {
  std::string reason = unsafe_path_reason(entry.path);
  const std::string first = entry.path.substr(0, entry.path.find('/'));
  const bool is_folder = entry.path == first;
  if (reason.empty() && std::find(folders_.begin(), folders_.end(), first) == folders_.end()) {
    reason = "it is in no folder for results";
  } else if (reason.empty() && is_folder && entry.entry_kind != TreeEntry::Kind::directory) {
    reason = "it takes the place of a folder for results";
  }
  if (reason.empty()) return Done{};
  return Error{"a result file is refused: its path '" + entry.path + "' is not allowed: " + reason};
}

Status FileSink::accept(int node_index, const TreeEntry& entry, std::int64_t offset,
                        std::string_view bytes, bool last) {
  if (Status allowed = check_entry(entry); !allowed) return allowed;
  if (entry.entry_kind != TreeEntry::Kind::file) {
    arrived_[node_index].insert_or_assign(entry.path, Arrived{entry, {}, {}});
    return Done{};
  }
  if (offset == 0) {
    if (Status begun = begin_file(node_index, entry.path); !begun) return begun;
  }
  return add_piece(node_index, entry, offset, bytes, last);
}

Status FileSink::begin_file(int node_index, const std::string& path) {
  Arriving arriving;
  arriving.path = path;
  arriving.gathered = (incoming() / std::to_string(gathered_count_++)).string();
  arriving.file =
      Fd(::open(arriving.gathered.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!arriving.file) return stage_error("create", arriving.gathered, errno);
  arriving_.insert_or_assign(node_index, std::move(arriving));
  return Done{};
}

Status FileSink::add_piece(int node_index, const TreeEntry& entry, std::int64_t offset,
                           std::string_view bytes, bool last) {
  const auto found = arriving_.find(node_index);
  if (found == arriving_.end() || found->second.path != entry.path ||
      found->second.received != offset) {
    return Error{"a piece of '" + entry.path + "' at offset " + std::to_string(offset) +
                 " from node " + std::to_string(node_index) + " came out of order"};
  }
  Arriving& arriving = found->second;
  if (!write_sparse(arriving.file.get(), bytes)) {
    const int why = errno;
    // On a full disk the journal needs what half a file holds.
    static_cast<void>(::ftruncate(arriving.file.get(), 0));
    arriving_.erase(found);
    return stage_error("write", root_ / entry.path, why);
  }
  arriving.content.add(bytes);
  arriving.received += static_cast<std::int64_t>(bytes.size());
  if (!last) return Done{};

  const int mode = (entry.mode & 0777) | 0600;
  if (!end_sparse(arriving.file.get()) ||
      ::fchmod(arriving.file.get(), static_cast<mode_t>(mode)) != 0) {
    return stage_error("write", root_ / entry.path, errno);
  }
  Arrived arrived{entry, arriving.gathered, arriving.content.finish()};
  arrived_[node_index].insert_or_assign(entry.path, std::move(arrived));
  arriving_.erase(found);
  return Done{};
}

// ---- settling

// One file that cannot be put in place does not keep the others away.
Status FileSink::finish_node(int node_index) {
  Status result = Done{};
  for (const auto& [path, arrived] : arrived_[node_index]) {
    Status settled = settle(node_index, arrived);
    if (!settled && result) result = settled;
  }
  arrived_.erase(node_index);
  arriving_.erase(node_index);
  return result;
}

Status FileSink::finish() {
  Status result = Done{};
  while (!arrived_.empty()) {
    Status settled = finish_node(arrived_.begin()->first);
    if (!settled && result) result = settled;
  }
  arriving_.clear();
  Status removed = remove_tree(incoming());
  return result ? removed : result;
}

// The path with the new name of the directory around it that had to give way, if one had to.
std::string FileSink::renamed(int node_index, std::string path) const {
  const auto names = directory_names_.find(node_index);
  if (names == directory_names_.end()) return path;
  std::string parent(split_last_component(path).first);
  for (; !parent.empty(); parent = split_last_component(parent).first) {
    const auto found = names->second.find(parent);
    if (found != names->second.end()) return found->second + path.substr(parent.size());
  }
  return path;
}

Status FileSink::settle(int node_index, const Arrived& arrived) {
  const std::string path = renamed(node_index, arrived.entry.path);
  const std::string parent(split_last_component(path).first);
  if (!open_directory_beneath(root_file_, parent, true)) {
    return stage_error("create", root_ / parent, errno);
  }
  if (arrived.entry.entry_kind == TreeEntry::Kind::directory) {
    return settle_directory(node_index, path, arrived.entry);
  }
  if (arrived.entry.entry_kind == TreeEntry::Kind::link &&
      !link_stays_inside(path, arrived.entry.target)) {
    problems_.push_back("the link '" + path + "' of node " + std::to_string(node_index) +
                        " is skipped: it leads to '" + arrived.entry.target + "'");
    return Done{};
  }
  return settle_leaf(node_index, path, arrived);
}

// Whether something else than a directory (or, for a leaf, a directory) has the name already.
bool FileSink::is_taken(const std::string& path, bool by_directory) const {
  struct stat facts {};
  const auto [parent, name] = split_last_component(path);
  const Fd directory = open_directory_beneath(root_file_, parent, false);
  if (::fstatat(directory.get(), std::string(name).c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    return false;
  }
  return S_ISDIR(facts.st_mode) == by_directory;
}

Status FileSink::settle_directory(int node_index, const std::string& path, const TreeEntry& entry) {
  std::string name = path;
  if (is_taken(path, false)) {
    name = name_of_node(path, node_index);
    directory_names_[node_index][entry.path] = name;
    problems_.push_back("'" + path + "' is a file: the directory of node " +
                        std::to_string(node_index) + " is kept as '" + name + "'");
  }
  const Fd made = open_directory_beneath(root_file_, name, true);
  const int mode = (entry.mode & 0777) | 0700;
  if (!made || ::fchmod(made.get(), static_cast<mode_t>(mode)) != 0) {
    return stage_error("create", root_ / name, errno);
  }
  settled_.insert_or_assign(name, identity(entry, {}));
  return Done{};
}

Status FileSink::settle_leaf(int node_index, const std::string& path, const Arrived& arrived) {
  const std::string content = identity(arrived.entry, arrived.hash);
  const std::string second_name = name_of_node(path, node_index);
  const auto first = settled_.find(path);
  if (first != settled_.end() && first->second == content) {
    // Equal this time: what an earlier collection kept beside it is out of date.
    if (!settled_.contains(second_name)) ::unlinkat(root_file_.get(), second_name.c_str(), 0);
    return Done{};
  }
  std::string name = path;
  if (first != settled_.end() || is_taken(path, true)) {
    name = second_name;
    problems_.push_back("'" + path + "' differs between nodes: the one of node " +
                        std::to_string(node_index) + " is kept as '" + name + "'");
  }
  if (Status moved = move_into_place(arrived, name); !moved) return moved;
  settled_.insert_or_assign(name, content);
  return Done{};
}

Status FileSink::move_into_place(const Arrived& arrived, const std::string& path) {
  std::string gathered = arrived.gathered;
  if (arrived.entry.entry_kind == TreeEntry::Kind::link) {
    gathered = (incoming() / std::to_string(gathered_count_++)).string();
    if (::symlink(arrived.entry.target.c_str(), gathered.c_str()) != 0) {
      return stage_error("create the link", root_ / path, errno);
    }
  }
  const auto [parent, name] = split_last_component(path);
  const Fd directory = open_directory_beneath(root_file_, parent, false);
  if (!directory ||
      ::renameat(AT_FDCWD, gathered.c_str(), directory.get(), std::string(name).c_str()) != 0) {
    return stage_error("store", root_ / path, errno);
  }
  return Done{};
}

Status save_settled(const fs::path& file, const SettledFiles& settled) {
  Json files = Json::object();
  for (const auto& [path, content] : settled) files[escaped(path)] = escaped(content);
  const Json json = {{"version", settled_files_version}, {"files", std::move(files)}};
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  if (replace_file(file, json.dump() + '\n', 0600, Durable::on_disk)) return Done{};
  return stage_error("write", file, errno);
}

Result<SettledFiles> load_settled(const fs::path& file) {
  std::error_code absent;
  if (!fs::exists(file, absent)) return SettledFiles{};
  SettledFiles settled;
  const Status read = read_versioned(file, settled_files_version, [&](const Json& json) {
    for (const auto& [path, content] : json.at("files").items()) {
      settled[unescaped(path)] = unescaped(content.get<std::string>());
    }
  });
  return read ? Result(std::move(settled)) : read.error();
}

void CollectReader::list_directory(const std::string& path, const IsKnown& is_known) {
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
    } else if (!is_known || !is_known(entry, inner)) {
      list_entry(opened, entry, name, inner);
    }
  }
  opened.reset();  // a deep tree must not use up the descriptors
  for (const std::string& inner : below) list_directory(inner, is_known);
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
                                          const std::vector<std::string>& folders,
                                          const IsKnown& is_known) {
  Fd root(::open(job_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return stage_error("read the directory", job_directory, errno);
  CollectReader reader(std::move(root), job_directory);
  for (const std::string& folder : folders) {
    struct stat facts {};
    if (::fstatat(reader.root_.get(), folder.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
      reader.list_directory(folder, is_known);
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
