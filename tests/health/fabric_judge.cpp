// fabric_judge DIRECTORY SECONDS: judges a directory of tools' outputs and prints what does not
// pass, a line for each finding: CHECK HOST DEVICE STATUS VALUE, `-` for what is empty. Files:
// golden, discovered (ibnetdiscover -p), linked (iblinkinfo -l), counted_before, counted_after
// (ibqueryerrors --data, SECONDS apart), manager (sminfo). The last line is the time it took.
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "health/fabric/fabric_judges.h"

using namespace muster;

namespace {

FileReading read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {"", "cannot open " + path, true};
  std::ostringstream text;
  text << file.rdbuf();
  return {text.str(), "", false};
}

std::string dashed(std::string_view text) {
  return text.empty() ? "-" : std::string(text);
}

// How many there were, with those that pass.
std::size_t print(const FabricFindings& findings) {
  for (const auto& [host, finding] : findings) {
    if (finding.status == CheckStatus::pass) continue;
    std::cout << finding.check << ' ' << dashed(host) << ' ' << dashed(finding.device) << ' '
              << word_of(finding.status) << ' ' << dashed(finding.value) << '\n';
    for (const std::string& line : finding.evidence) std::cerr << "  " << line << '\n';
  }
  return findings.size();
}

}  // namespace

int main(int count, char** arguments) {
  int between_s = 0;
  const char* number = count == 3 ? arguments[2] : "";
  if (std::from_chars(number, number + std::strlen(number), between_s).ec != std::errc()) {
    std::cerr << "fabric_judge DIRECTORY SECONDS\n";
    return 2;
  }
  const std::string directory = std::string(arguments[1]) + "/";
  HealthProfile profile;
  profile.ib.rate_gbps = 200;
  const auto begun = std::chrono::steady_clock::now();
  const Fabric golden = read_ibnetdiscover(read(directory + "golden"));
  const Fabric linked = read_iblinkinfo(read(directory + "linked"));
  std::size_t findings = print(judge_fabric_links(linked, &golden, profile));
  const Fabric discovered = read_ibnetdiscover(read(directory + "discovered"));
  findings += print(judge_fabric_discovery(discovered, golden, profile));
  const FabricErrors before = read_ibqueryerrors(read(directory + "counted_before"));
  const FabricErrors after = read_ibqueryerrors(read(directory + "counted_after"));
  const std::chrono::seconds between(between_s);
  findings += print(judge_fabric_errors(before, after, between, linked, profile));
  findings += print(judge_subnet_manager(read_sminfo(read(directory + "manager"))));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  std::cout << "judged " << findings << ' ' << took.count() << '\n';
  return 0;
}
