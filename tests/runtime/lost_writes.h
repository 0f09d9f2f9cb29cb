// What a directory looks like after a power loss, from the notes of what was done to it.
//
// A file's bytes are safe once the file was synced after they were written, a name once its
// directory was synced after it changed; nothing else is. Of what is not safe all may be lost, or
// a random part of it: single blocks of 4 KiB of a file, all changes of names in a directory since
// it was synced.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "tests/runtime/file_ops_log.h"
#include "tests/runtime/folder.h"

namespace muster::test {

class LostWrites {
 public:
  // `root` as it is on the disk, all of it safe.
  explicit LostWrites(std::string root) : root_(std::move(root)), top_(read(root_)) {}

  // What was done since, in order.
  void replay(std::string_view log) {
    while (log.size() >= sizeof(FileOpHead)) {
      FileOpHead head;
      std::copy_n(log.data(), sizeof head, reinterpret_cast<char*>(&head));
      log.remove_prefix(sizeof head);
      if (log.size() < head.first_bytes + head.second_bytes) return;  // killed while noting it
      const std::string first(log.substr(0, head.first_bytes));
      const auto second = log.substr(head.first_bytes, head.second_bytes);
      log.remove_prefix(head.first_bytes + head.second_bytes);
      apply(head, first, second);
    }
  }

  // The power fails: puts what is left into the empty directory `target`. `kept` is the part of
  // what is not safe that happens to be on the disk, 0 to 1.
  void leave(const std::string& target, double kept, std::mt19937_64& random) const {
    leave(*top_, target, kept, random);
  }

 private:
  struct Node {
    bool is_directory = false;
    std::string now, safe;                                           // of a file
    std::map<std::string, std::shared_ptr<Node>> names, safe_names;  // of a directory
  };
  using NodePtr = std::shared_ptr<Node>;

  static NodePtr read(const std::string& path) {
    auto node = std::make_shared<Node>();
    node->is_directory = true;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      auto child = std::make_shared<Node>();
      if (entry.is_directory()) {
        child = read(entry.path().string());
      } else {
        child->now = child->safe = content_of(entry.path().string());
      }
      node->names[entry.path().filename().string()] = child;
    }
    node->safe_names = node->names;
    return node;
  }

  // The directory of `path` and its last name; none when it is the top, or not there.
  std::pair<NodePtr, std::string> place(const std::string& path) const {
    NodePtr at = top_;
    std::string name;
    for (const auto& part : std::filesystem::path(path).lexically_relative(root_)) {
      if (!name.empty()) at = at->names.count(name) ? at->names[name] : nullptr;
      if (!at) return {nullptr, ""};
      name = part.string();
    }
    return {at, name};
  }

  NodePtr find(const std::string& path) const {
    const auto [directory, name] = place(path);
    if (name == ".") return top_;
    if (!directory || !directory->names.count(name)) return nullptr;
    return directory->names[name];
  }

  void apply(const FileOpHead& head, const std::string& path, std::string_view second) {
    const auto [directory, name] = place(path);
    const NodePtr node = find(path);
    if (!directory) return;
    if (head.op == FileOp::create || head.op == FileOp::make_directory) {
      directory->names[name] = std::make_shared<Node>();
      directory->names[name]->is_directory = head.op == FileOp::make_directory;
    }
    if (head.op == FileOp::remove) directory->names.erase(name);
    if (!node) return;
    switch (head.op) {
      case FileOp::truncate:
        node->now.resize(head.offset);
        break;
      case FileOp::write:
        if (node->now.size() < head.offset + second.size()) {
          node->now.resize(head.offset + second.size());
        }
        std::copy(second.begin(), second.end(),
                  node->now.begin() + static_cast<std::ptrdiff_t>(head.offset));
        break;
      case FileOp::sync_file:
        node->safe = node->now;
        break;
      case FileOp::sync_directory:
        node->safe_names = node->names;
        break;
      case FileOp::rename: {
        directory->names.erase(name);
        const auto [to, new_name] = place(std::string(second));
        if (to) to->names[new_name] = node;
        break;
      }
      default:
        break;
    }
  }

  static bool draw(double chance, std::mt19937_64& random) {
    return std::uniform_real_distribution<double>(0, 1)(random) < chance;
  }

  static std::string left_of(const Node& file, double kept, std::mt19937_64& random) {
    constexpr std::size_t block = 4096;
    std::string left = file.safe;
    if (draw(kept, random)) left.resize(file.now.size());
    for (std::size_t at = 0; at < left.size() && at < file.now.size(); at += block) {
      if (!draw(kept, random)) continue;
      const std::size_t count = std::min({block, left.size() - at, file.now.size() - at});
      std::copy_n(file.now.begin() + static_cast<std::ptrdiff_t>(at), count,
                  left.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return left;
  }

  static void leave(const Node& directory, const std::string& target, double kept,
                    std::mt19937_64& random) {
    std::filesystem::create_directories(target);
    const auto& names = draw(kept, random) ? directory.names : directory.safe_names;
    for (const auto& [name, node] : names) {
      if (node->is_directory) {
        leave(*node, target + "/" + name, kept, random);
      } else {
        put(target + "/" + name, left_of(*node, kept, random));
      }
    }
  }

  std::string root_;
  NodePtr top_;
};

}  // namespace muster::test
