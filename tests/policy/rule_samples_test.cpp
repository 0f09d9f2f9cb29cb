// Every built-in rule against a sample of the failure it is for, and against the ends of logs that
// no rule may claim. A sample's first line says how the rank ended.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "scheduler/restart/pattern.h"
#include "scheduler/restart/rule_book.h"
#include "tests/catch.h"

using namespace muster;

namespace {

const std::filesystem::path folder = std::filesystem::path(MUSTER_SOURCE_DIR) / "tests/policy";

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// "exit 3" or "signal 9", wherever it stands in the line.
ExitStatus status_in(const std::string& text) {
  const auto number_after = [&](const std::string& word) {
    const std::size_t at = text.find(word);
    return at == text.npos ? 0 : std::stoi(text.substr(at + word.size()));
  };
  const ExitStatus status{number_after("exit "), number_after("signal ")};
  INFO(text);
  REQUIRE(!status.ok());
  return status;
}

std::map<std::string, KnownExit> samples() {
  std::map<std::string, KnownExit> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "samples")) {
    std::vector<std::string> lines = lines_of(entry.path());
    REQUIRE(lines.size() >= 2);
    const ExitStatus status = status_in(lines.front());
    lines.erase(lines.begin());
    out[entry.path().stem().string()] = {status, lines};
  }
  return out;
}

// Title and evidence of each section of unmatched.txt.
std::vector<std::pair<std::string, KnownExit>> ordinary_ends() {
  std::vector<std::pair<std::string, KnownExit>> out;
  for (const std::string& line : lines_of(folder / "unmatched.txt")) {
    if (line.starts_with("== ")) out.push_back({line, {status_in(line.substr(3)), {}}});
    else if (!out.empty()) out.back().second.last_lines.push_back(line);
  }
  return out;
}

std::vector<std::string> ids_of(const std::vector<RuleHit>& hits, bool with_pattern) {
  std::vector<std::string> ids;
  for (const RuleHit& hit : hits) {
    const RestartRule& rule = hit.entry->rule;
    const bool says_why = !rule.stderr_regex.empty() || !rule.xids.empty();
    if (says_why || !with_pattern) ids.push_back(rule.id);
  }
  return ids;
}

}  // namespace

// A library that Python cannot load is a special case of what these two are for.
const std::vector<std::string> its_general_forms = {"library-missing", "import-error"};
const std::vector<std::string> nothing;

TEST_CASE("every built-in rule has a sample, and every sample a rule") {
  std::set<std::string> rules, sampled;
  for (const RestartRule& rule : built_in_rules()) rules.insert(rule.id);
  for (const auto& [id, evidence] : samples()) sampled.insert(id);
  CHECK(rules == sampled);
  CHECK(rules.size() == built_in_rules().size());
  CHECK(rules.size() >= 40);
}

TEST_CASE("every sample is decided by its rule, and what it says fits no other") {
  const RuleBook book{MusterSettings{}};
  for (const auto& [id, evidence] : samples()) {
    INFO(id);
    const RuleVerdict verdict = book.judge(evidence);
    REQUIRE(verdict.rule);
    CHECK(verdict.rule->id == id);
    std::vector<std::string> others = ids_of(book.hits(evidence), true);
    std::erase(others, id);
    CHECK(others == (id == "cuda-library-missing" ? its_general_forms : nothing));
  }
}

TEST_CASE("ordinary failures and healthy output are claimed by no built-in rule") {
  const RuleBook book{MusterSettings{}};
  const auto ends = ordinary_ends();
  CHECK(ends.size() >= 40);
  for (const auto& [title, evidence] : ends) {
    INFO(title);
    CHECK(ids_of(book.hits(evidence), false) == std::vector<std::string>{});
  }
}

TEST_CASE("every built-in rule says whose failure it is, what to do and a sentence of advice") {
  for (const RestartRule& rule : built_in_rules()) {
    INFO(rule.id);
    CHECK(rule.failure_class);
    CHECK(rule.action);
    CHECK(rule.enforce);
    CHECK(rule.advice.size() > 10);
    CHECK(rule.advice.find('\n') == std::string::npos);
    CHECK((rule.stderr_regex.empty() || Pattern::compile(rule.stderr_regex)));
  }
}

TEST_CASE("a rank that echoes another's failure is told by rules that say so") {
  std::set<std::string> echoes;
  for (const RestartRule& rule : built_in_rules()) {
    if (rule.cascade) echoes.insert(rule.id);
  }
  CHECK(echoes.count("nccl-remote"));
  CHECK(echoes.count("connection-lost"));
  CHECK(!echoes.count("cuda-oom"));
  CHECK(!echoes.count("mpi-abort"));
}

TEST_CASE("a cause in the same lines comes before its echo") {
  const KnownExit both{{1, 0},
                          {"Connection reset by peer", "ncclRemoteError: a peer went away",
                           "RuntimeError: CUDA out of memory"}};
  const RuleVerdict verdict = judge_exit({}, both);
  REQUIRE(verdict.rule);
  CHECK(verdict.rule->id == "cuda-oom");
}
