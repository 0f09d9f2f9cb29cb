#include "runtime/checkpoint/commit.h"

#include <filesystem>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
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
  if (fs::exists(path + "/" + checkpoint_manifest_name, code) || code) return;
  fs::remove_all(path, code);
}

}  // namespace muster
