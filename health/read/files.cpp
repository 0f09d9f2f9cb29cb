#include "health/read/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "scheduler/text/number.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view unanswered = "no answer within ";

FileReading lines_of(std::initializer_list<std::pair<const char*, std::string>> said) {
  FileReading reading;
  for (const auto& [key, value] : said)
    reading.text.append(key).append(" ").append(value).append("\n");
  return reading;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

struct OpenFile {
  int fd = -1;
  explicit OpenFile(int opened) : fd(opened) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// A directory answers when its first entry can be had: an open of a dead mount may succeed.
FileReading directory_reading(int fd) {
  const Directory directory(::fdopendir(::fcntl(fd, F_DUPFD_CLOEXEC, 0)));
  if (!directory) return failed_reading(errno);
  errno = 0;
  if (::readdir(directory.get()) == nullptr && errno != 0) return failed_reading(errno);
  return {};
}

// An attribute of sysfs that is text comes with the first read, and is less than a page; others
// may come in parts. Hundreds of them are read every few seconds.
bool is_whole(const std::string& path, std::size_t size) {
  constexpr std::size_t page_bytes = 4096;
  return path.starts_with("sys/") && size < page_bytes;
}

FileReading text_reading(int directory, const std::string& path, std::size_t bytes_max) {
  const OpenFile file(::openat(directory, path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (file.fd < 0) return failed_reading(errno);
  FileReading reading;
  std::array<char, 16384> part{};
  while (reading.text.size() <= bytes_max) {
    const ssize_t size = ::read(file.fd, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EISDIR) return directory_reading(file.fd);
    if (size < 0) return failed_reading(errno);
    reading.text.append(part.data(), static_cast<std::size_t>(size));
    const bool is_end = size == 0 || is_whole(path, reading.text.size());
    if (is_end && reading.text.size() <= bytes_max) return reading;
  }
  reading.text.resize(bytes_max);
  reading.error = "longer than " + std::to_string(bytes_max) + " bytes";
  return reading;
}

// "error Permission denied" in a file that takes a call's place is what the call met.
FileReading as_probe(FileReading reading) {
  if (!reading.ok()) return reading;
  for (const std::string_view word : {"error ", "missing "}) {
    if (!reading.text.starts_with(word)) continue;
    const std::string_view line = std::string_view(reading.text).substr(word.size());
    return {{}, std::string(line.substr(0, line.find('\n'))), word.starts_with('m')};
  }
  return reading;
}

std::string below(const std::string& path) {
  return path.size() < 2 ? "." : path.substr(1);
}

// ---- what the kernel tells by calls: texts of lines "key value"

// stat:
FileReading owner_reading(int directory, const std::string& path) {
  struct stat file {};
  if (::fstatat(directory, path.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0)
    return failed_reading(errno);
  return lines_of({{"uid", std::to_string(file.st_uid)},
                   {"bytes", std::to_string(file.st_size)},
                   {"modified_s", std::to_string(file.st_mtim.tv_sec)}});
}

// statvfs:
FileReading space_reading(int directory, const std::string& path) {
  const OpenFile file(::openat(directory, path.c_str(), O_PATH | O_CLOEXEC));
  struct statvfs space {};
  if (file.fd < 0 || ::fstatvfs(file.fd, &space) != 0) return failed_reading(errno);
  return lines_of({{"bytes", std::to_string(space.f_blocks * space.f_frsize)},
                   {"bytes_available", std::to_string(space.f_bavail * space.f_frsize)},
                   {"inodes", std::to_string(space.f_files)},
                   {"inodes_available", std::to_string(space.f_favail)},
                   {"read_only", (space.f_flag & ST_RDONLY) != 0 ? "1" : "0"}});
}

// open:
FileReading open_reading(int directory, const std::string& path) {
  constexpr int flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
  const OpenFile file(::openat(directory, path.c_str(), flags));
  return file.fd < 0 ? failed_reading(errno) : FileReading{};
}

// …@
FileReading link_reading(int directory, const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlinkat(directory, path.c_str(), target.data(), target.size());
  if (size < 0) return failed_reading(errno);
  return {std::string(target.data(), static_cast<std::size_t>(size)), {}, false};
}

// rlimit:
FileReading limit_reading(std::string_view name) {
  constexpr std::array known{std::pair("nofile", RLIMIT_NOFILE),
                             std::pair("memlock", RLIMIT_MEMLOCK),
                             std::pair("nproc", RLIMIT_NPROC)};
  for (const auto& [known_name, resource] : known) {
    if (known_name != name) continue;
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) return failed_reading(errno);
    return lines_of({{"soft", limit_text(limit.rlim_cur)}, {"hard", limit_text(limit.rlim_max)}});
  }
  return {{}, "no such limit", true};
}

// adjtimex:
FileReading clock_reading() {
  timex clock{};  // no modes: nothing is set
  if (::adjtimex(&clock) < 0) return failed_reading(errno);
  const bool is_nano = (clock.status & STA_NANO) != 0;
  return lines_of({{"status", std::to_string(clock.status)},
                   {"offset_us", std::to_string(is_nano ? clock.offset / 1000 : clock.offset)},
                   {"max_error_us", std::to_string(clock.maxerror)}});
}

// ---- one pass over the sources

class Pass {
 public:
  Pass(const ReadRequest& request, const ReadSink& sink)
      : request_(request),
        sink_(sink),
        root_(::open(request.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (root_.fd < 0)
      stopped_ = "cannot read below " + request.root + ": " + failed_reading(errno).error;
    if (request.root != "/" && root_.fd >= 0) {
      FileReading reading;
      for (std::string& name : list("/.probes", reading)) placed_.insert(std::move(name));
    }
  }

  void read(const std::string& text) {
    if (stopped_.empty()) {
      const SourcePattern source = source_pattern_of(text);
      if (source.path.starts_with('/')) {
        expand(source, "", source.path);
      } else {
        one(source, std::string(source.path));
      }
    }
    if (!stopped_.empty()) sink_.done(place_of(text), {{}, stopped_, false});
  }

 private:
  // `done` is without stars; `rest` begins with a slash, or is empty.
  void expand(const SourcePattern& source, const std::string& done, std::string_view rest) {
    if (!stopped_.empty()) return;
    if (rest.empty()) return one(source, done);
    const std::size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string_view component = rest.substr(1, end - 1);
    rest.remove_prefix(end);
    if (!is_pattern(component)) return expand(source, done + "/" + std::string(component), rest);
    for (const std::string& name : names_in(done.empty() ? "/" : done)) {
      if (fits_pattern(component, name)) expand(source, done + "/" + name, rest);
    }
  }

  // Listed once in a pass, so that all sources see the same names.
  const std::vector<std::string>& names_in(const std::string& directory) {
    const auto [found, is_new] = listed_.try_emplace(directory);
    if (!is_new || !begin(directory)) return found->second;
    FileReading reading = placed_reading(directory).value_or(FileReading{});
    if (reading.ok()) found->second = list(directory, reading);
    tell(directory, std::move(reading));
    return found->second;
  }

  std::vector<std::string> list(const std::string& path, FileReading& reading) const {
    std::vector<std::string> names;
    const int fd = ::openat(root_.fd, below(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const Directory directory(fd < 0 ? nullptr : ::fdopendir(fd));
    if (!directory) {
      reading = failed_reading(errno);
      return names;
    }
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      if (names.size() > request_.readings_max) errno = EFBIG;
      if (errno != 0) break;
    }
    if (errno != 0) reading = failed_reading(errno);
    std::ranges::sort(names);
    return names;
  }

  void one(const SourcePattern& source, const std::string& path) {
    const std::string key = std::string(source.probe) + path + (source.is_link ? "@" : "");
    if (told_.contains(key) || !begin(key)) return;
    tell(key, reading_of(source, path, key));
  }

  FileReading reading_of(const SourcePattern& source, const std::string& path,
                         const std::string& key) {
    if (auto placed = placed_reading(key)) return *std::move(placed);
    if (source.probe == "rlimit:") return limit_reading(path);
    if (source.probe == "adjtimex:") return clock_reading();
    if (!path.starts_with('/')) return {{}, "no absolute path", true};
    if (source.is_link) return link_reading(root_.fd, below(path));
    if (source.probe.empty()) return text_reading(root_.fd, below(path), request_.file_bytes_max);
    if (source.probe == "stat:") return owner_reading(root_.fd, below(path));
    if (source.probe == "statvfs:") return space_reading(root_.fd, below(path));
    if (source.probe == "open:") return open_reading(root_.fd, below(path));
    return {{}, "no such probe", true};
  }

  // Of the file that takes its place; nothing: there is none.
  std::optional<FileReading> placed_reading(std::string key) const {
    std::ranges::replace(key, '/', '%');
    if (!placed_.contains(key)) return std::nullopt;
    FileReading reading = text_reading(root_.fd, ".probes/" + key, request_.file_bytes_max);
    return reading.is_missing ? std::nullopt : std::optional(as_probe(std::move(reading)));
  }

  bool begin(std::string_view path) const {
    if (request_.skip.contains(path)) return false;
    if (sink_.begins) sink_.begins(path);
    return true;
  }

  void tell(const std::string& path, FileReading reading) {
    bytes_ += path.size() + reading.text.size();
    told_.insert(path);
    sink_.done(path, std::move(reading));
    if (bytes_ > request_.total_bytes_max) {
      stopped_ = "not read: more than " + std::to_string(request_.total_bytes_max) + " bytes";
    } else if (told_.size() >= request_.readings_max) {
      stopped_ = "not read: more than " + std::to_string(request_.readings_max) + " files";
    }
  }

  const ReadRequest& request_;
  const ReadSink& sink_;
  const OpenFile root_;
  std::set<std::string> placed_;  // what lies in .probes
  std::map<std::string, std::vector<std::string>> listed_;
  std::set<std::string, std::less<>> told_;
  std::size_t bytes_ = 0;
  std::string stopped_;  // empty, or why nothing more is read
};

namespace fs = std::filesystem;

class RootWriter {
 public:
  RootWriter(const SourceFiles& files, const std::string& root) : files_(files), root_(root) {}

  Status write() {
    for (const bool links : {false, true}) {
      for (const auto& [path, reading] : files_.all()) {
        if (source_pattern_of(path).is_link == links) write_one(path, reading);
        if (!error_.empty()) return Error{error_};
      }
    }
    return Done{};
  }

 private:
  void write_one(const std::string& path, const FileReading& reading) {
    const SourcePattern source = source_pattern_of(path);
    const std::string place(source.path);
    if (!source.probe.empty()) {
      if (reading.ok() && place.starts_with('/')) show_name(place);
      return place_reading(path, reading);
    }
    if (reading.is_missing) return show_listed_parent(place);
    make_folder(parent_of(place));
    if (!reading.ok()) return place_reading(path, reading);
    if (source.is_link) return write_link(path, place, reading.text);
    if (reading.text.empty()) return make_folder(place);
    write_text(place, reading.text);
  }

  static std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 || slash == path.npos ? "/" : path.substr(0, slash);
  }

  bool is_listed(const std::string& folder) const {
    const auto found = files_.all().find(folder);
    return found != files_.all().end() && found->second.ok() && found->second.text.empty();
  }

  // A name that a star found, of which nothing but a call was read.
  void show_name(const std::string& path) {
    std::error_code ignored;
    if (is_listed(parent_of(path)) && !fs::exists(root_ + path, ignored)) write_text(path, "");
  }

  // The star above a missing file found a name: it is there, as a folder without that file.
  void show_listed_parent(const std::string& path) {
    for (std::string name = parent_of(path); name != "/"; name = parent_of(name)) {
      if (is_listed(parent_of(name))) return make_folder(name);
    }
  }

  void make_folder(const std::string& path) {
    std::error_code failed;
    fs::create_directories(root_ + path, failed);
    if (failed) fail(path, failed.message());
  }

  void write_text(const std::string& path, const std::string& text) {
    make_folder(parent_of(path));
    const std::string file = root_ + path;
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return fail(path, failed_reading(errno).error);
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t size = ::write(fd, text.data() + done, text.size() - done);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      done += static_cast<std::size_t>(size);
    }
    const int error = errno;
    const bool is_closed = ::close(fd) == 0;
    if (done < text.size() || !is_closed)
      fail(path, failed_reading(done < text.size() ? error : errno).error);
  }

  void write_link(const std::string& key, const std::string& path, const std::string& target) {
    if (::symlink(target.c_str(), (root_ + path).c_str()) == 0) return;
    if (errno != EEXIST) return fail(path, failed_reading(errno).error);
    place_reading(key, {target, {}, false});  // what it leads to was read as well
  }

  void place_reading(std::string key, const FileReading& reading) {
    std::ranges::replace(key, '/', '%');
    if (reading.ok()) return write_text("/.probes/" + key, reading.text);
    const char* word = reading.is_missing ? "missing " : "error ";
    write_text("/.probes/" + key, word + reading.error + "\n");
  }

  void fail(const std::string& path, const std::string& why) {
    if (error_.empty()) error_ = "cannot write " + root_ + path + ": " + why;
  }

  const SourceFiles& files_;
  const std::string& root_;
  std::string error_;
};

}  // namespace

FileReading failed_reading(int error_number) {
  // A process that ended while it was read is no file either.
  const bool is_missing =
      error_number == ENOENT || error_number == ENOTDIR || error_number == ESRCH;
  return {{}, std::generic_category().message(error_number), is_missing};
}

void read_files(const ReadRequest& request, const ReadSink& sink) {
  Pass pass(request, sink);
  for (const std::string& source : request.sources) pass.read(source);
}

SourceFiles read_files(const ReadRequest& request) {
  SourceFiles files;
  read_files(request, {{}, [&files](std::string path, FileReading reading) {
                         files.add(std::move(path), std::move(reading));
                       }});
  return files;
}

std::string place_of(std::string_view source) {
  const std::string_view path = source_pattern_of(source).path;
  const std::string_view fixed = fixed_part(path);
  return std::string(fixed.size() == path.size() ? source : fixed);
}

FileReading unanswered_reading(std::chrono::milliseconds waited) {
  const bool is_whole = waited.count() % 1000 == 0;
  const auto count = is_whole ? waited.count() / 1000 : waited.count();
  return {{}, std::string(unanswered) + std::to_string(count) + (is_whole ? " s" : " ms"), false};
}

bool did_not_answer(const FileReading& reading) {
  return reading.error.starts_with(unanswered);
}

std::optional<std::int64_t> probe_number(std::string_view text, std::string_view key) {
  const auto said = value_in_lines(text, key, ' ');
  return said ? read_integer(*said) : std::nullopt;
}

Status write_files(const SourceFiles& files, const std::string& root) {
  return RootWriter(files, root).write();
}

}  // namespace muster
