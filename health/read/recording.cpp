#include "health/read/recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "health/read/files.h"

namespace muster {

namespace {

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

Status write_files(const SourceFiles& files, const std::string& root) {
  return RootWriter(files, root).write();
}

}  // namespace muster
