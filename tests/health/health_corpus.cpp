// How much of what breaks on nodes is found, and what is told of healthy ones: behind
// scripts/health-corpus.
//   health_corpus [NODE_CHECKS [CASE…]]     cases: files of tests/health/corpus; none: all
// Prints `name value unit goal`; what was missed goes to standard error.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "health/checks/check_names.h"
#include "templates/profile/reader.h"
#include "tests/health/corpus_case.h"
#include "tests/health/corpus_noise.h"
#include "tests/health/corpus_player.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::string text_of_file(const fs::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

HealthProfile shipped(const std::string& name) {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/configs/health/" + name + ".yml";
  const HealthProfileFile read = read_health_profile(path, text_of_file(path), names_of_checks());
  for (const Finding& finding : read.findings) std::cerr << path << ": " << finding.message << "\n";
  if (read.profile.name != name) std::exit(2);
  return read.profile;
}

std::vector<fs::path> files_of(const std::vector<std::string>& names) {
  const fs::path folder = fs::path(MUSTER_SOURCE_DIR) / "tests/health/corpus";
  std::vector<fs::path> files;
  for (const std::string& name : names) files.push_back(folder / (name + ".txt"));
  if (!names.empty()) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

struct Counts {
  int cases = 0;
  int all = 0;
  int found = 0;
  int urgent = 0;
  int urgent_found = 0;
  int right_device = 0;
  int right_severity = 0;
  int wrong = 0;
};

void count(Counts& counts, const std::string& name, const CorpusOutcome& outcome) {
  ++counts.cases;
  for (const CorpusAnswer& answer : outcome.answers) {
    ++counts.all;
    counts.found += answer.is_found;
    counts.urgent += answer.is_urgent;
    // An eviction of the wrong GPU, or a mere warning, is no recall.
    counts.urgent_found += answer.is_urgent && answer.has_device && answer.has_severity;
    counts.right_device += answer.is_found && answer.has_device;
    counts.right_severity += answer.has_device && answer.has_severity;
    if (!answer.has_severity || !answer.has_device)
      std::cerr << "missed: " << name << ": " << answer.what << "; said: " << answer.said << "\n";
  }
  for (const std::string& wrong : outcome.wrong) {
    ++counts.wrong;
    std::cerr << "wrong: " << name << ": " << wrong << "\n";
  }
}

void figure(const char* name, double value, const char* unit, const char* goal) {
  std::printf("%s %.4g %s %s\n", name, value, unit, goal);
}

double percent(int part, int whole) {
  return whole == 0 ? 0 : 100.0 * part / whole;
}

Counts play(const std::vector<fs::path>& files, const HealthProfile& h100,
            const HealthProfile& a100) {
  Counts counts;
  for (const fs::path& path : files) {
    const auto parsed = parse_corpus_case(path.stem().string(), text_of_file(path));
    if (!parsed) {
      std::cerr << "wrong: " << parsed.error().message << "\n";
      ++counts.wrong;
      continue;
    }
    const HealthProfile& profile = parsed->node == FakeKind::h100 ? h100 : a100;
    count(counts, parsed->name, play_corpus_case(*parsed, profile));
  }
  return counts;
}

NoiseCount measured_noise(const HealthProfile& h100, const HealthProfile& a100,
                          const NoisePlan& plan) {
  const NoiseCount noise = replay_noise(h100, a100, plan);
  for (const std::string& line : noise.drained) std::cerr << "drained: " << line << "\n";
  for (const std::string& check : noise.open_breakers) std::cerr << "breaker: " << check << "\n";
  return noise;
}

// And whether it would be noticed if a drain went wrong, or a real fault went under.
void measure_noise(const HealthProfile& h100, const HealthProfile& a100, int node_checks) {
  const NoiseCount noise = measured_noise(h100, a100, {node_checks, false, false});
  figure("noise_node_checks", noise.node_checks, "count",
         (">=" + std::to_string(node_checks)).c_str());
  figure("noise_stalled_nodes", noise.stalled, "nodes",
         (">=" + std::to_string(noise.nodes)).c_str());
  figure("noise_drains", noise.drains, "nodes", "<=0");
  const NoiseCount generic =
      measured_noise(shipped("hgx-h100"), shipped("hgx-a100"), {node_checks, false, false});
  figure("noise_node_checks_of_all_makers", generic.node_checks, "count",
         (">=" + std::to_string(node_checks)).c_str());
  figure("noise_drains_of_all_makers", generic.drains, "nodes", "<=0");
  const NoiseCount broken = replay_noise(h100, a100, {0, true, false});
  figure("noise_broken_drained", broken.broken_drained, "nodes", ">=2");
  figure("noise_drains_beside_them", broken.drains, "nodes", "<=0");
  const NoiseCount hasty = replay_noise(h100, a100, {0, false, true});
  figure("noise_drains_without_settling", hasty.drains, "nodes", ">=1");
}

int run(int node_checks, const std::vector<std::string>& names) {
  const HealthProfile h100 = shipped("ND96isr_H100_v5");
  const HealthProfile a100 = shipped("ND96asr_v4");
  const Counts counts = play(files_of(names), h100, a100);
  figure("corpus_cases", counts.cases, "count", names.empty() ? ">=400" : "-");
  figure("corpus_faults", counts.all, "count", "-");
  figure("corpus_recall_of_remedies", percent(counts.urgent_found, counts.urgent), "%", ">=100");
  figure("corpus_recall", percent(counts.found, counts.all), "%", ">=95");
  figure("corpus_right_device", percent(counts.right_device, counts.found), "%", ">=98");
  figure("corpus_right_severity", percent(counts.right_severity, counts.found), "%", ">=98");
  figure("corpus_wrongly_said", counts.wrong, "count", "<=0");
  if (node_checks == 0) return 0;
  measure_noise(h100, a100, node_checks);
  return 0;
}

}  // namespace

}  // namespace muster

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  int node_checks = 10'000;
  if (!words.empty()) {
    const std::string& word = words.front();
    std::from_chars(word.data(), word.data() + word.size(), node_checks);
  }
  return muster::run(node_checks, {words.begin() + (words.empty() ? 0 : 1), words.end()});
}
