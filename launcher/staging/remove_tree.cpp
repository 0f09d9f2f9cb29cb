#include "launcher/staging/remove_tree.h"

#include "launcher/staging/stage_error.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

void open_up(const fs::path& directory) {
  std::error_code ignored;
  fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add, ignored);
  for (fs::directory_iterator it(directory, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    std::error_code unknown;
    if (fs::is_directory(it->symlink_status(unknown))) open_up(it->path());
  }
}

}  // namespace

Status remove_tree(const fs::path& directory) {
  std::error_code code;
  fs::remove_all(directory, code);
  if (code == std::errc::permission_denied) {
    open_up(directory);
    fs::remove_all(directory, code);
  }
  if (code) return stage_error("remove", directory, code.value());
  return Done{};
}

}  // namespace muster
