#include "launcher/staging/trees_file.h"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "launcher/os/read_file.h"
#include "launcher/staging/blob_store.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/text.h"

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
  std::vector<Tree> trees;
  const Status read = read_versioned(file, trees_file_version, [&](const Json& json) {
    read_json(json.at("trees"), trees);
    for (Tree& tree : trees) {
      for (TreeEntry& entry : tree.entries) {
        entry.path = unescaped(entry.path);
        entry.target = unescaped(entry.target);
      }
    }
  });
  return read ? Result(std::move(trees)) : read.error();
}

Status read_versioned(const fs::path& file, int version,
                      const std::function<void(const Json&)>& take) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return stage_error("read", file, errno);
  try {
    const Json json = Json::parse(in);
    if (json.at("version").get<int>() > version) {
      return Error{"'" + file.string() + "' was written by a newer muster"};
    }
    take(json);
    return Done{};
  } catch (const std::exception& failure) {
    return Error{"'" + file.string() + "' cannot be read: " + failure.what()};
  }
}

std::string escaped(const std::string& name) {
  static constexpr std::string_view digits = "0123456789abcdef";
  const bool keeps_high_bytes = to_utf8(name) == name;
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || (byte >= 0x80 && !keeps_high_bytes)) {
      text += '%';
      text += digits[byte >> 4];
      text += digits[byte & 15];
    } else {
      text += c;
    }
  }
  return text;
}

std::string unescaped(const std::string& text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    unsigned int byte = 0;
    const char* digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      throw std::runtime_error("'" + text + "' has a '%' without two hex digits");
    }
    name += static_cast<char>(byte);
    i += 2;
  }
  return name;
}

}  // namespace muster
