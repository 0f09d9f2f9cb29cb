#include "cli/health_ready.h"

#include "cli/health_idle.h"
#include "cli/terminal.h"
#include "health/infiniband/port.h"
#include "health/infiniband/sources.h"

namespace muster {

namespace {

constexpr std::size_t hcas_most = 64;
constexpr std::string_view busy_word = "busy ";
constexpr std::string_view hca_word = "hca ";

std::string after(std::string_view line, std::string_view word) {
  return std::string(line.substr(word.size()));
}

std::vector<std::string> usable_hcas(HealthSources& sources) {
  NodeReadRequest request;
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  const SourceFiles files = sources.read(std::move(request)).files;
  std::vector<std::string> names;
  for (const InfinibandPort& port : find_ports(files)) {
    const bool is_usable = !is_virtual_function(files, port.device) &&
                           !is_management_device(files, port.device) &&
                           files.text(port.path("link_layer")) == "InfiniBand" &&
                           files.text(port.path("state")) == "4: ACTIVE";
    if (is_usable) names.push_back(port.number == "1" ? port.device : port.name());
  }
  return names;
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
  }
  return std::nullopt;
}

std::string text_of(const NodeReadiness& readiness) {
  std::string text;
  if (!readiness.busy.empty()) text += std::string(busy_word) + readiness.busy + "\n";
  for (const std::string& hca : readiness.hcas) text += std::string(hca_word) + hca + "\n";
  return text + ready_probe + "\n";
}

int tell_readiness() {
  HealthSources sources(own_sources(""));
  NodeReadiness readiness;
  readiness.busy = why_not_idle(sources);
  for (char& c : readiness.busy) {
    if (c == '\n') c = ' ';
  }
  readiness.hcas = usable_hcas(sources);
  write_all(Stream::out, text_of(readiness));
  return 0;
}

}  // namespace muster
