#include "launcher/data/output_content.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "launcher/data/rclone.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/materialize.h"
#include "scheduler/text/spelling.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Of a file that is about to be laid: whatever stands there is ours, for ranks do not run yet.
constexpr std::string_view being_laid = "laying ";

std::string entry_of(const struct stat& facts, const std::string& object) {
  return stamp_of(facts) + " " + object;
}

bool is_ours(const std::string& entry, const struct stat& facts) {
  return entry.starts_with(entry_of(facts, "")) || entry.starts_with(being_laid);
}

std::string path_of(const StagedData& output, const DataFile& file) {
  return "outputs/" + output.input + (output.is_file ? "" : "/" + file.path);
}

// What a rank wrote, and what the store has by now of it, is as good as laid.
bool is_here(OutputContent& content, const fs::path& job, const DataFile& file,
             const SettledFiles& earlier, const TellData& tell) {
  const std::string path = path_of(content.data, file);
  struct stat facts {};
  if (::lstat((job / path).c_str(), &facts) != 0) return false;
  const std::string entry = entry_of(facts, object_name(content.missing, file));
  const auto was = earlier.find(path);
  if (was != earlier.end() && is_ours(was->second, facts)) {
    if (S_ISLNK(facts.st_mode) || was->second != entry) return false;
    content.laid[path] = entry;
  } else if (S_ISREG(facts.st_mode) && facts.st_size == file.bytes) {
    bool is_same = file.md5.empty() && time_ns(facts) == file.modified_ns;
    if (!file.md5.empty()) {
      const auto md5 = md5_of_file(job / path, tell);
      is_same = md5 && *md5 == file.md5;
    }
    if (is_same) content.laid[path] = entry;
  }
  return true;
}

// A copy that may be written to, with the time that the store tells.
bool copy_to(const fs::path& from, const fs::path& to, const std::function<void()>& alive) {
  const Fd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts {};
  if (!source || ::fstat(source.get(), &facts) != 0) return false;
  Fd copy(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const std::array times{facts.st_mtim, facts.st_mtim};
  return copy && copy_content(source, copy, alive) && ::futimens(copy.get(), times.data()) == 0;
}

// What a rank made of the name, or of a directory around it, stays.
Status move_to(const fs::path& made, const fs::path& job, const std::string& path,
               struct stat& facts) {
  const Fd root(::open(job.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto [parent, name] = split_last_component(path);
  const Fd directory = open_directory_beneath(root, parent, true);
  const std::string last(name);
  const bool is_moved = directory &&
                        ::renameat(AT_FDCWD, made.c_str(), directory.get(), last.c_str()) == 0 &&
                        ::fstatat(directory.get(), last.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_moved || errno == ENOTDIR || errno == ELOOP || errno == EISDIR) return Done{};
  return stage_error("write", job / path, errno);
}

}  // namespace

std::string stamp_of(const struct stat& facts) {
  std::string stamp = std::to_string(facts.st_ino) + "/" + std::to_string(facts.st_size);
  for (const timespec& time : {facts.st_mtim, facts.st_ctim}) {
    stamp += "/" + std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  }
  return stamp;
}

Result<OutputContent> look_at_output(const StagedData& output, const fs::path& job,
                                     const std::string& node, const TellData& tell) {
  const std::string what = "what the store has of output " + quoted_text(output.input);
  tell("data: listing " + what);
  auto listed = list_files(output.config, output.source, "node " + node + " cannot list " + what,
                           "node " + node);
  if (!listed) return listed.error();
  OutputContent content{output, {output.manifest, output.source, {}}, {}};
  auto earlier = load_settled(job / ".present" / output.input);
  if (!earlier) return earlier.error();
  for (DataFile& file : *listed) {
    const bool stays = is_here(content, job, file, *earlier, tell);
    earlier->erase(path_of(output, file));
    if (!stays) content.missing.files.push_back(std::move(file));
  }
  // What the store has no longer.
  for (const auto& [path, entry] : *earlier) {
    struct stat facts {};
    const fs::path gone = job / path;
    if (::lstat(gone.c_str(), &facts) == 0 && is_ours(entry, facts)) ::unlink(gone.c_str());
  }
  content.data.manifest = content_hash_of(data_manifest_text(content.missing));
  const fs::space_info disk = disk_of(job);
  const bool is_known = disk.capacity > 0;
  if (is_known && content.missing.bytes() > static_cast<std::int64_t>(disk.available))
    content.data.how = "output stream";
  if (output.is_file) {  // the directory that it is in: "store:" or "store:c/d"
    const std::size_t at = output.source.find_last_of("/:");
    content.data.source.resize(at + (output.source[at] == ':' ? 1 : 0));
  }
  return content;
}

Status lay_output(OutputContent& content, const fs::path& job, const fs::path& tree,
                  bool is_mounted, const TellData& tell) {
  const std::string& name = content.data.input;
  const fs::path record = job / ".present" / name, mounted = job / ".mounted" / name;
  const fs::path made = job / ".laying";
  std::error_code failure;
  for (const fs::path& part : {job / "outputs", record.parent_path(), mounted.parent_path()}) {
    fs::create_directories(part, failure);
    if (failure) return stage_error("make", part, failure.value());
  }
  fs::remove(mounted, failure);
  if (is_mounted) fs::create_symlink(tree, mounted, failure);
  if (failure) return stage_error("make", mounted, failure.value());
  for (const DataFile& file : content.missing.files) {
    content.laid[path_of(content.data, file)] = being_laid;
  }
  if (auto saved = save_settled(record, content.laid); !saved) return saved;
  for (const DataFile& file : content.missing.files) {
    const std::string path = path_of(content.data, file);
    const auto alive = [&] { tell("data: " + path); };
    alive();
    ::unlink(made.c_str());
    const bool is_made = is_mounted ? ::symlink((mounted / file.path).c_str(), made.c_str()) == 0
                                    : copy_to(tree / file.path, made, alive);
    if (!is_made) return stage_error("write", job / path, errno);
    struct stat facts {};
    if (auto moved = move_to(made, job, path, facts); !moved) return moved;
    content.laid.erase(path);
    if (facts.st_ino != 0) content.laid[path] = entry_of(facts, object_name(content.missing, file));
  }
  ::unlink(made.c_str());
  return save_settled(record, content.laid);
}

Result<CollectReader::IsKnown> left_as_laid(const fs::path& job) {
  SettledFiles all;
  std::error_code failure;
  for (fs::directory_iterator entry(job / ".present", failure), end; !failure && entry != end;
       entry.increment(failure)) {
    auto laid = load_settled(entry->path());
    if (!laid) return laid.error();
    all.merge(*laid);
  }
  if (failure && failure != std::errc::no_such_file_or_directory) {
    return stage_error("read", job / ".present", failure.value());
  }
  const auto is_left = [all](const std::string& path, const struct stat& facts) {
    const auto found = all.find(path);
    return found != all.end() && found->second.starts_with(entry_of(facts, ""));
  };
  return CollectReader::IsKnown(is_left);
}

}  // namespace muster
