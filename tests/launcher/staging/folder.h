// A temporary directory of a test: files by short calls, gone at the end. And a user who may not do
// everything.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

#include "launcher/staging/materialize.h"

namespace muster {

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "muster-stage-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    path_ = std::filesystem::canonical(name);
  }
  ~Folder() { (void)remove_tree(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  void write(const std::string& name, const std::string& content, int mode = 0644) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    ::chmod((path_ / name).c_str(), static_cast<mode_t>(mode));
  }
  void directory(const std::string& name) const {
    std::filesystem::create_directories(path_ / name);
  }
  void link(const std::string& name, const std::string& target) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_symlink(target, path_ / name);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path_ / name, std::ios::binary);
    if (!in) return "(no file)";
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int mode(const std::string& name) const {
    struct stat facts {};
    return ::lstat((path_ / name).c_str(), &facts) == 0 ? static_cast<int>(facts.st_mode & 0777)
                                                        : -1;
  }
  // Paths of everything below `name`, directories with a slash at the end.
  std::set<std::string> list(const std::string& name = "") const {
    namespace fs = std::filesystem;
    std::set<std::string> found;
    if (!fs::exists(path_ / name)) return found;
    for (const auto& entry : fs::recursive_directory_iterator(path_ / name)) {
      const std::string path = entry.path().lexically_relative(path_ / name).string();
      found.insert(fs::is_directory(entry.symlink_status()) ? path + "/" : path);
    }
    return found;
  }

 private:
  std::filesystem::path path_;
};

// Root may read and remove everything; this scope may not.
class AsNobody {
 public:
  explicit AsNobody(const Folder& folder) {
    if (::geteuid() != 0) return;
    (void)::chown(folder.path().c_str(), nobody, nobody);
    changed_ = ::seteuid(nobody) == 0;
  }
  ~AsNobody() {
    if (changed_) (void)::seteuid(0);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t nobody = 65534;
  bool changed_ = false;
};

}  // namespace muster
