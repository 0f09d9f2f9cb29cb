#include "cli/health/cluster/health_ready.h"

#include <charconv>

#include "cli/health/idle.h"
#include "cli/terminal/terminal.h"
#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/sources.h"
#include "health/fabric/fabric.h"

namespace muster {

namespace {

constexpr std::size_t hcas_most = 64;
constexpr std::string_view busy_word = "busy ";
constexpr std::string_view hca_word = "hca ";
constexpr std::string_view guid_word = "guid ";
constexpr std::string_view boot_word = "boot ";
constexpr std::size_t boot_id_bytes_most = 64;

std::string after(std::string_view line, std::string_view word) {
  return std::string(line.substr(word.size()));
}

// "fe80:0000:0000:0000:506b:4b03:00cc:1234": the last half.
std::uint64_t guid_in(std::string_view gid) {
  std::string digits;
  for (const char c : gid) {
    if (c != ':') digits += c;
  }
  constexpr std::size_t half = 16;
  if (digits.size() != 2 * half) return 0;
  std::uint64_t guid = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data() + half, end, guid, 16);
  return error == std::errc() && at == end ? guid : 0;
}

void note_guid(std::string_view words, NodeReadiness& found) {
  std::uint64_t guid = 0;
  const std::size_t blank = words.find(' ');
  if (blank == words.npos || !words.starts_with("0x")) return;
  const char* end = words.data() + blank;
  const auto [at, error] = std::from_chars(words.data() + 2, end, guid, 16);
  const bool is_guid = error == std::errc() && at == end && guid != 0;
  if (is_guid && found.guids.size() < hcas_most)
    found.guids[std::string(words.substr(blank + 1))] = guid;
}

bool is_boot_id(std::string_view text) {
  return !text.empty() && text.size() <= boot_id_bytes_most &&
         text.find_first_not_of("0123456789abcdef-") == text.npos;
}

void add_usable_hcas(HealthSources& sources, NodeReadiness& readiness) {
  NodeReadRequest request;
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  const SourceFiles files = sources.read(std::move(request)).files;
  for (const InfinibandPort& port : find_ports(files)) {
    const bool is_usable = !is_virtual_function(files, port.device) &&
                           !is_management_device(files, port.device) &&
                           files.text(port.path("link_layer")) == "InfiniBand" &&
                           files.text(port.path("state")) == "4: ACTIVE";
    if (!is_usable) continue;
    const std::string name = port.number == "1" ? port.device : port.name();
    readiness.hcas.push_back(name);
    const std::uint64_t guid = guid_in(files.text(port.path("gids/0")).value_or(""));
    if (guid != 0) readiness.guids[name] = guid;
  }
}

}  // namespace

std::optional<NodeReadiness> read_readiness(std::string_view text) {
  NodeReadiness found;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == ready_probe) return found;
    if (line.starts_with(busy_word)) found.busy = after(line, busy_word);
    if (line.starts_with(hca_word) && found.hcas.size() < hcas_most) {
      found.hcas.push_back(after(line, hca_word));
    }
    if (line.starts_with(boot_word) && is_boot_id(line.substr(boot_word.size()))) {
      found.boot_id = after(line, boot_word);
    }
    if (line.starts_with(guid_word)) note_guid(line.substr(guid_word.size()), found);
  }
  return std::nullopt;
}

std::string text_of(const NodeReadiness& readiness) {
  std::string text;
  if (!readiness.busy.empty()) text += std::string(busy_word) + readiness.busy + "\n";
  for (const std::string& hca : readiness.hcas) text += std::string(hca_word) + hca + "\n";
  for (const auto& [hca, guid] : readiness.guids) {
    text += std::string(guid_word) + text_of_guid(guid) + " " + hca + "\n";
  }
  if (!readiness.boot_id.empty()) text += std::string(boot_word) + readiness.boot_id + "\n";
  return text + ready_probe + "\n";
}

int tell_readiness() {
  HealthSources sources(own_sources(""));
  NodeReadiness readiness;
  readiness.busy = why_not_idle(sources);
  for (char& c : readiness.busy) {
    if (c == '\n') c = ' ';
  }
  add_usable_hcas(sources, readiness);
  readiness.boot_id = sources.boot_id();
  write_all(Stream::out, text_of(readiness));
  return 0;
}

}  // namespace muster
