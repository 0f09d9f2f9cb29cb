#include "launcher/staging/trees_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "launcher/os/read_file.h"
#include "launcher/staging/escaped_name.h"
#include "launcher/staging/stage_error.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr int trees_file_version = 1;

}  // namespace

Status save_trees(const fs::path& file, const std::vector<Tree>& trees) {
  std::vector<Tree> writable = trees;
  for (Tree& tree : writable) {
    for (TreeEntry& entry : tree.entries) {
      entry.path = escaped(entry.path);
      entry.target = escaped(entry.target);
    }
  }
  Json json = {{"version", trees_file_version}};
  write_json(json["trees"], writable);

  if (replace_file(file, json.dump() + '\n', 0600, Durable::on_disk)) return Done{};
  return stage_error("write", file, errno);
}

Result<std::vector<Tree>> load_trees(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return stage_error("read", file, errno);
  try {
    const Json json = Json::parse(in);
    if (json.at("version").get<int>() > trees_file_version) {
      return Error{"'" + file.string() + "' was written by a newer muster"};
    }
    std::vector<Tree> trees;
    read_json(json.at("trees"), trees);
    for (Tree& tree : trees) {
      for (TreeEntry& entry : tree.entries) {
        entry.path = unescaped(entry.path);
        entry.target = unescaped(entry.target);
      }
    }
    return trees;
  } catch (const std::exception& failure) {
    return Error{"'" + file.string() + "' cannot be read: " + failure.what()};
  }
}

}  // namespace muster
