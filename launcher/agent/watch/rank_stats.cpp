#include "launcher/agent/watch/rank_stats.h"

#include <dirent.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace muster {

namespace {

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
  while (const dirent* entry = open ? ::readdir(open.get()) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

std::uint64_t number_in(const std::string& path) {
  std::uint64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

// Columns 1 and 9 after the name: bytes received and sent.
std::uint64_t interface_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/net/dev");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream columns(line.substr(colon + 1));
    std::uint64_t value = 0;
    for (int column = 1; columns >> value; ++column) {
      if (column == 1 || column == 9) sum += value;
    }
  }
  return sum;
}

// The counters of InfiniBand count words of four bytes.
std::uint64_t infiniband_bytes(const std::string& root) {
  const std::string devices = root + "/sys/class/infiniband";
  std::uint64_t words = 0;
  for (const std::string& device : names_in(devices)) {
    const std::string ports = devices + "/" + device + "/ports";
    for (const std::string& port : names_in(ports)) {
      const std::string counters = ports + "/" + port + "/counters/port_";
      words += number_in(counters + "xmit_data") + number_in(counters + "rcv_data");
    }
  }
  return 4 * words;
}

}  // namespace

std::vector<pid_t> process_tree(pid_t root, std::size_t limit) {
  std::vector<pid_t> tree{root};
  for (std::size_t next = 0; next < tree.size() && tree.size() < limit; ++next) {
    const std::string pid = std::to_string(tree[next]);
    std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
    for (pid_t child = 0; children >> child && tree.size() < limit;) tree.push_back(child);
  }
  return tree;
}

std::uint64_t io_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/io");
  std::uint64_t sum = 0, value = 0;
  for (std::string name; file >> name >> value;) {
    const bool counts = name == "rchar:" || name == "wchar:" || name == "read_bytes:";
    if (counts) sum += value;
  }
  return sum;
}

std::uint64_t network_bytes(const std::string& root) {
  return interface_bytes(root) + infiniband_bytes(root);
}

}  // namespace muster
