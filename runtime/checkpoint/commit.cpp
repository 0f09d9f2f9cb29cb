#include "runtime/checkpoint/commit.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Those saved while training diverges are the newest, and none of them is good. Two, for the loss
// that a checkpoint knows is that of the state before its own, which its last step may have spoilt.
std::set<std::string> with_best_loss(const CheckpointSearch& search) {
  std::vector<std::pair<double, std::string>> known;
  for (const FoundCheckpoint& found : search.usable) {
    if (!std::isfinite(found.loss_ema) || found.loss_ema <= 0) continue;
    known.emplace_back(found.loss_ema, found.directory);
  }
  std::stable_sort(known.begin(), known.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::set<std::string> best;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, known.size()); ++i) {
    best.insert(known[i].second);
  }
  return best;
}

// Usable checkpoints that no rule keeps, newest first.
std::vector<std::string> beyond_need(const CheckpointSearch& search, const Retention& retention) {
  std::vector<std::string> gone;
  std::uint64_t usable_left = std::max<std::uint64_t>(retention.keep, 2);
  std::uint64_t certified_left = std::max<std::uint64_t>(retention.keep_certified, 1);
  const std::set<std::string> best = with_best_loss(search);
  for (const FoundCheckpoint& found : search.usable) {
    const bool is_certified = found.grade == CheckpointGrade::certified;
    const bool needed =
        usable_left > 0 || (is_certified && certified_left > 0) || best.contains(found.directory);
    if (usable_left > 0) --usable_left;
    if (is_certified && certified_left > 0) --certified_left;
    if (needed || is_pinned(found.path) || retention.referred.contains(found.directory)) continue;
    gone.push_back(found.directory);
  }
  return gone;
}

bool is_orphan(const std::string& root, const std::string& directory, const Retention& retention) {
  const auto name = parse_checkpoint_directory_name(directory);
  const std::string path = root + "/" + directory;
  std::error_code code;
  if (!name || !fs::is_directory(path, code) || may_exist(path + "/" + checkpoint_manifest_name)) {
    return false;
  }
  return name->generation < retention.generation ||
         (name->generation == retention.generation && name->step < retention.step);
}

Checked<NoValue> remove_checkpoint(const std::string& root, const std::string& directory) {
  const std::string path = root + "/" + directory;
  const std::string manifest = path + "/" + checkpoint_manifest_name;
  if (::unlink(manifest.c_str()) != 0 && errno != ENOENT) {
    return CheckpointFault{manifest + ": cannot be removed"};
  }
  if (auto synced = sync_checkpoint_directory(path); !synced) return synced;
  std::error_code code;
  fs::rename(path, root + "/" + checkpoint_trash_prefix + directory, code);
  if (code) return CheckpointFault{path + ": cannot be renamed: " + code.message()};
  return NoValue{};
}

// What a crash or a refused removal left behind is tried again at the next pass.
void empty_trash(const std::string& root) {
  std::vector<fs::path> trash;
  std::error_code code;
  for (fs::directory_iterator at(root, code), end; !code && at != end; at.increment(code)) {
    if (at->path().filename().string().starts_with(checkpoint_trash_prefix)) {
      trash.push_back(at->path());
    }
  }
  for (const fs::path& path : trash) fs::remove_all(path, code);
}

}  // namespace

namespace fs = std::filesystem;

Checked<std::string> prepare_checkpoint_directory(const std::string& root, std::uint64_t step,
                                                  std::uint64_t generation) {
  const std::string path = root + "/" + checkpoint_directory_name({step, generation});
  if (auto made = make_checkpoint_directory(path); !made) return made.fault();
  if (auto synced = sync_checkpoint_directory(root); !synced) return synced.fault();
  return path;
}

std::vector<std::string> missing_shards(const std::string& path, const Manifest& manifest) {
  std::vector<std::string> missing;
  for (const ShardRecord& shard : manifest.shards) {
    std::error_code code;
    if (fs::file_size(path + "/" + shard.file, code) != shard.bytes || code) {
      missing.push_back(shard.file);
    }
  }
  return missing;
}

Checked<std::string> commit_checkpoint(const std::string& root, const Manifest& manifest) {
  // The writer may have been stopped for long, before or while it gets here.
  const auto is_newest = [&] { return check_newest_generation(root, manifest.generation); };
  if (auto newest = is_newest(); !newest) return newest.fault();
  const std::string name = checkpoint_directory_name({manifest.step, manifest.generation});
  const std::string path = root + "/" + name;
  if (auto synced = sync_checkpoint_directory(path); !synced) return synced.fault();
  if (auto synced = sync_checkpoint_directory(root); !synced) return synced.fault();
  const std::string text = format_manifest(manifest);
  auto put = replace_durably(path, checkpoint_manifest_name, text, is_newest);
  if (!put) return put.fault();
  if (auto read_back = read_manifest(path); !read_back) return read_back.fault();
  const auto hint = replace_durably(root, checkpoint_latest_name, name + "\n");
  return hint ? std::string() : hint.reason();
}

void discard_uncommitted(const std::string& path) {
  std::error_code code;
  if (!may_exist(path + "/" + checkpoint_manifest_name)) fs::remove_all(path, code);
}

Checked<std::vector<std::string>> collect_checkpoints(const std::string& root,
                                                      const Retention& retention) {
  const CheckpointSearch search = search_checkpoints(root);
  if (!search.trouble.empty()) {
    return CheckpointFault{search.trouble + ": nothing was deleted"};
  }
  if (search.highest_generation > retention.generation) {
    return CheckpointFault{root + ": a newer generation is at work, nothing was deleted"};
  }
  std::vector<std::string> gone = beyond_need(search, retention);
  for (const RejectedCheckpoint& rejected : search.rejected) {
    if (is_orphan(root, rejected.directory, retention)) gone.push_back(rejected.directory);
  }
  std::optional<CheckpointFault> trouble;
  for (const std::string& directory : gone) {
    // It may have been stopped for long since it looked.
    const auto newest = check_newest_generation(root, retention.generation);
    if (!newest) return newest.fault();
    const auto removed = remove_checkpoint(root, directory);
    // What its own writer gave up meanwhile is gone as well.
    if (removed || trouble || !may_exist(root + "/" + directory)) continue;
    trouble = removed.fault();
  }
  empty_trash(root);
  if (trouble) return *trouble;
  return gone;
}

}  // namespace muster
