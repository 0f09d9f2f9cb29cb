#include "launcher/data/stage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "launcher/data/cache.h"
#include "launcher/data/rclone.h"
#include "launcher/data/store_config.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<const DataFile*>;

// What is fetched before it is verified: a killed staging fetches at most so much twice, and each
// part costs a start of rclone.
constexpr std::int64_t part_bytes = std::int64_t{4} << 30;
constexpr std::size_t part_files = 5000;
constexpr std::size_t read_bytes = std::size_t{1} << 20;

Result<std::string> md5_of_file(const fs::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return system_error("read " + path.string());
  ContentHash hash(ContentHash::Kind::md5);
  std::string bytes;
  for (std::int64_t at = 0;; at += static_cast<std::int64_t>(bytes.size())) {
    if (!read_at(file.get(), at, read_bytes, bytes)) return system_error("read " + path.string());
    if (bytes.empty()) return hash.finish();
    hash.add(bytes);
  }
}

class Staging {
 public:
  Staging(const StagedData& data, const DataManifest& manifest, const DataCache& cache,
          const std::string& node, const TellData& tell)
      : data_(data), manifest_(manifest), cache_(cache), node_(node), tell_(tell) {}

  // Nothing: the tree is there.
  std::optional<StagingFailure> run() {
    auto lock = cache_.fetching(data_.manifest, tell_);
    if (!lock) return StagingFailure{lock.error().message};
    if (cache_.is_whole(data_.manifest, manifest_)) return std::nullopt;
    std::error_code ignored;
    Status built = Done{};
    // Objects that no tree has may be removed, to make room for others, before this one has them.
    for (int tries = 0; tries < 3; ++tries) {
      fs::remove_all(cache_.incoming(data_.manifest), ignored);
      if (auto failed = fetch_missing()) return failed;
      built = cache_.build(data_.manifest, manifest_);
      if (built || missing_files().empty()) break;
    }
    fs::remove_all(cache_.incoming(data_.manifest), ignored);
    return built ? std::nullopt : std::optional(StagingFailure{built.error().message});
  }
  std::int64_t fetched() const { return done_bytes_; }
  bool lacks_room() const { return lacks_room_; }

 private:
  std::optional<StagingFailure> fetch_missing() {
    const Files missing = missing_files();
    if (missing.empty()) return std::nullopt;
    all_bytes_ = done_bytes_;
    std::int64_t needed = 0;
    for (const DataFile* file : missing) needed += file->bytes;
    all_bytes_ += needed;
    if (auto room = cache_.make_room(needed, data_.size); !room) {
      lacks_room_ = true;
      return StagingFailure{"node " + node_ + ": " + room.error().message};
    }
    return fetch_all(missing);
  }

  // One of those that are the same object is enough.
  Files missing_files() const {
    Files missing;
    std::set<std::string> names;
    for (const DataFile& file : manifest_.files) {
      const std::string name = object_name(manifest_, file);
      if (DataCache::is_as_listed(cache_.object(name), file)) continue;
      if (names.insert(name).second) missing.push_back(&file);
    }
    return missing;
  }

  std::optional<StagingFailure> fetch_all(const Files& missing) {
    Files part;
    std::int64_t bytes = 0;
    for (const DataFile* file : missing) {
      part.push_back(file);
      bytes += file->bytes;
      if (bytes < part_bytes && part.size() < part_files) continue;
      if (auto failed = fetch_part(part)) return failed;
      part.clear();
      bytes = 0;
    }
    return part.empty() ? std::nullopt : fetch_part(part);
  }

  std::optional<StagingFailure> fetch_part(const Files& part) {
    if (auto failed = fetch(part)) return failed;
    for (const DataFile* file : part) {
      if (auto failed = verify(*file)) return failed;
      done_bytes_ += file->bytes;
      tell_progress(0, 0);
    }
    return std::nullopt;
  }

  std::optional<StagingFailure> fetch(const Files& part) {
    const std::string to = cache_.incoming(data_.manifest).string() + "/files";
    RcloneRequest request;
    request.words = {"copy", data_.source, to, "--transfers=16", "--checkers=16"};
    request.config = data_.config;
    request.on_progress = [this](const RcloneProgress& now) {
      tell_progress(now.bytes, now.bytes_per_s);
    };
    for (const DataFile* file : part) request.files += rclone_name(file->path) + "\n";
    auto run = Rclone::begin(std::move(request));
    if (!run) return StagingFailure{run.error().message};
    const auto failure = run->wait();
    if (!failure) return std::nullopt;
    if (failure->is_missing_program) return StagingFailure{no_rclone_text("node " + node_)};
    return StagingFailure{"node " + node_ + " cannot fetch the data of input " +
                          quoted_text(data_.input) + ": " + failure->message};
  }

  StagingFailure changed(const DataFile& file, const std::string& how) const {
    return {"the data of input " + quoted_text(data_.input) + " changed since the job was " +
                "submitted: " + quoted_text(file.path) + " " + how +
                "; submit the job again to read what is there now",
            true};
  }

  // Kept where it is what was listed.
  std::optional<StagingFailure> verify(const DataFile& file) {
    const fs::path path = cache_.incoming(data_.manifest) / "files" / file.path;
    struct stat facts {};
    if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return changed(file, "is no longer there");
    }
    if (facts.st_size != file.bytes) {
      return changed(file, "has " + std::to_string(facts.st_size) + " bytes instead of " +
                               std::to_string(file.bytes));
    }
    const std::int64_t time_ns =
        std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
    if (file.md5.empty() && time_ns != file.modified_ns) return changed(file, "has another time");
    if (!file.md5.empty()) {
      const auto md5 = md5_of_file(path);
      if (!md5) return StagingFailure{md5.error().message};
      if (*md5 != file.md5) return changed(file, "has another content (MD5)");
    }
    if (auto kept = cache_.keep(path, object_name(manifest_, file), file); !kept) {
      return StagingFailure{kept.error().message};
    }
    return std::nullopt;
  }

  // Said where something moved: what says nothing for minutes is stopped.
  void tell_progress(std::int64_t in_part, double per_s) {
    const std::int64_t now = done_bytes_ + in_part;
    if (now <= told_bytes_ && told_bytes_ > 0) return;
    told_bytes_ = now;
    std::string text = "data " + size_text(now) + " of " + size_text(all_bytes_);
    if (per_s > 0) {
      const double left_s = static_cast<double>(all_bytes_ - now) / per_s;
      text += ", " + size_text(static_cast<std::int64_t>(per_s)) + "/s, " +
              printed("%.0f s", std::ceil(left_s));
    }
    tell_(text);
  }

  const StagedData& data_;
  const DataManifest& manifest_;
  const DataCache& cache_;
  const std::string& node_;
  const TellData& tell_;
  std::int64_t all_bytes_ = 0;
  std::int64_t done_bytes_ = 0;
  std::int64_t told_bytes_ = 0;
  bool lacks_room_ = false;
};

}  // namespace

StagedTree stage_data(const StagedData& data, std::string_view manifest_bytes,
                      const std::string& cache_directory, const std::string& node,
                      const TellData& tell) {
  StagedTree staged;
  if (content_hash_of(manifest_bytes) != data.manifest) {
    staged.failure = StagingFailure{"the list of the data's files is damaged on node " + node};
    return staged;
  }
  const auto manifest = read_data_manifest(manifest_bytes);
  auto cache = DataCache::open(cache_directory);
  if (!manifest || !cache) {
    staged.failure = StagingFailure{!manifest ? manifest.error().message : cache.error().message};
    return staged;
  }
  staged.path = cache->tree(data.manifest).string();
  const DataCache::Room room = cache->room(data.size, data.stage_below);
  const bool is_large =
      manifest->bytes() > room.share && !cache->is_whole(data.manifest, *manifest);
  Staging staging(data, *manifest, *cache, node, tell);
  if (data.how != "stream" && !(data.how == "auto" && is_large)) {
    staged.failure = staging.run();
    staged.fetched_bytes = staging.fetched();
    if (data.how == "stage" || !staging.lacks_room()) return staged;
  }
  staged.stream_cache =
      data.mount_cache.empty() ? room.share : mount_cache_bytes(data.mount_cache, room.free);
  if (!staged.stream_cache) {
    staged.failure =
        StagingFailure{"DATASET_MOUNT_CACHE_SIZE: expected bytes or a size such as " +
                           std::string("'500 MB', got ") + quoted_text(data.mount_cache),
                       true};
  }
  return staged;
}

}  // namespace muster
