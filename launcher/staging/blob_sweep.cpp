#include "launcher/staging/blob_sweep.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/staging/blob_store.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr const char* swept_prefix = "swept-";

fs::path taken_out(const fs::path& root, const std::string& hash) {
  return root / "tmp" / (swept_prefix + hash);
}

fs::path place_of(const fs::path& root, const std::string& hash) {
  return root / hash.substr(0, 2) / hash;
}

// Where somebody has stored it again meanwhile that one stays, with the mark of its use.
void put_back(const fs::path& out, const fs::path& place) {
  if (::link(out.c_str(), place.c_str()) == 0 || errno == EEXIST) ::unlink(out.c_str());
}

bool is_unused(const fs::path& path, std::time_t since, struct stat& facts) {
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 1 &&
         facts.st_atim.tv_sec < since;
}

// A rename leaves the mark of the latest use as it is.
bool remove_blob(const fs::path& root, const std::string& hash, std::time_t since) {
  const fs::path out = taken_out(root, hash);
  if (::rename(place_of(root, hash).c_str(), out.c_str()) != 0) return false;
  struct stat facts {};
  if (is_unused(out, since, facts)) return ::unlink(out.c_str()) == 0;
  put_back(out, place_of(root, hash));
  return false;
}

void sweep_one(const fs::path& root, const BlobSweep& sweep, const std::string& hash,
               Removed& removed) {
  struct stat facts {};
  if (!is_content_hash(hash) || !is_unused(place_of(root, hash), sweep.unused_since, facts)) return;
  if (sweep.is_needed(hash)) return;
  if (!sweep.dry_run && !remove_blob(root, hash, sweep.unused_since)) return;
  removed.count += 1;
  removed.bytes += facts.st_size;
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

void put_back_swept(const fs::path& root) {
  std::error_code code;
  for (fs::directory_iterator it(root / "tmp", code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    const std::string hash =
        name.starts_with(swept_prefix) ? name.substr(std::string(swept_prefix).size()) : "";
    if (is_content_hash(hash)) put_back(it->path(), place_of(root, hash));
  }
}

}  // namespace muster
