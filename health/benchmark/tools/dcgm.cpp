#include "health/benchmark/tools/dcgm.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "health/active/json_tree.h"
#include "health/benchmark/tools/sample_line.h"
#include "health/read/tool_process.h"

namespace muster {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// No node has more; 4294967295 means none.
constexpr int gpu_max = 255;
// DCGM_ERROR_MONITOR: it can work, and should be watched; DCGM_ERROR_CONFIG: a setting is wrong.
constexpr double monitor_severity = 1;
constexpr double config_severity = 5;

enum class TestStatus { pass, fail, warn, skip };

// "Pass", "PASS", "Skip - All"
std::optional<TestStatus> status_of(const JsonNode* node) {
  if (node == nullptr || node->text() == nullptr) return std::nullopt;
  std::string word = node->text()->substr(0, node->text()->find(' '));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "pass") return TestStatus::pass;
  if (word == "fail") return TestStatus::fail;
  if (word == "warn") return TestStatus::warn;
  if (word == "skip" || word == "skipped") return TestStatus::skip;
  return std::nullopt;
}

// 3, "3", " 3"
std::optional<int> gpu_in(std::string_view word) {
  const std::size_t first = word.find_first_not_of(' ');
  word.remove_prefix(std::min(first, word.size()));
  int gpu = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), gpu);
  const bool is_gpu = error == std::errc() && end == word.data() + word.size() && gpu >= 0;
  return is_gpu && gpu <= gpu_max ? std::optional(gpu) : std::nullopt;
}

std::optional<int> gpu_in(const JsonNode& node) {
  if (node.text() != nullptr) return gpu_in(*node.text());
  const double* number = node.number();
  const bool is_gpu = number != nullptr && *number >= 0 && *number <= gpu_max;
  return is_gpu && std::floor(*number) == *number ? std::optional(static_cast<int>(*number))
                                                  : std::nullopt;
}

// "0,1,2"
std::vector<int> gpus_in(const std::string& list) {
  std::vector<int> gpus;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (const auto gpu = gpu_in(word)) gpus.push_back(*gpu);
  }
  return gpus;
}

// Whom a result is about: GPUs, or, where there are none, the node and a word for what of it.
struct Subject {
  std::vector<int> gpus;
  std::string part;  // "CPU 0"
};

std::string scalar_text(const JsonNode& node) {
  if (node.text() != nullptr) return *node.text();
  return node.number() != nullptr ? std::to_string(std::lround(*node.number())) : "";
}

Subject subject_of(const JsonNode& result) {
  const JsonNode* group = result.at("entity_group");
  const JsonNode* id = result.at("entity_id");
  if (group != nullptr && id != nullptr) {
    const bool is_gpu = group->text() != nullptr && *group->text() == "GPU";
    const auto gpu = is_gpu ? gpu_in(*id) : std::nullopt;
    if (gpu) return {{*gpu}, {}};
    return {{}, scalar_text(*group) + " " + scalar_text(*id)};
  }
  if (const JsonNode* gpu_id = result.at("gpu_id")) {
    const auto gpu = gpu_in(*gpu_id);
    return gpu ? Subject{{*gpu}, {}} : Subject{};
  }
  if (const JsonNode* gpu_ids = result.at("gpu_ids")) return {gpus_in(scalar_text(*gpu_ids)), {}};
  const JsonNode* cpu = result.at("cpu_id");
  return cpu == nullptr ? Subject{} : Subject{{}, "CPU " + scalar_text(*cpu)};
}

// A warning is a text, or an object with one under either name.
std::string warning_text(const JsonNode& warning) {
  if (warning.text() != nullptr) return *warning.text();
  for (const char* key : {"warning", "warnings"}) {
    const JsonNode* text = warning.at(key);
    if (text != nullptr && text->text() != nullptr) return *text->text();
  }
  return {};
}

struct Warnings {
  std::string first;       // its text
  bool are_slight = true;  // each says that it is
  bool any = false;
};

void take_warning(Warnings& all, const JsonNode& warning) {
  if (warning.is_null()) return;
  const JsonNode* severity = warning.at("error_severity");
  const double* number = severity == nullptr ? nullptr : severity->number();
  const bool is_slight =
      number != nullptr && (*number == monitor_severity || *number == config_severity);
  all.are_slight = all.are_slight && is_slight;
  all.any = true;
  if (all.first.empty()) all.first = warning_text(warning);
}

Warnings warnings_of(const JsonNode& result) {
  Warnings all;
  const JsonNode* node = result.at("warnings");
  if (node == nullptr) return all;
  if (node->list() == nullptr) take_warning(all, *node);
  if (node->list() != nullptr) {
    for (const JsonNode& each : *node->list()) take_warning(all, each);
  }
  return all;
}

// Of one device.
struct Tally {
  int passed = 0;
  int skipped = 0;
  int bad = 0;
  bool is_slight = true;
  std::string which;
  std::string unclear;  // the first test whose status is no known one

  void add_bad(const std::string& sentence, bool is_slight_one) {
    ++bad;
    // What is grave stands first: the text is cut somewhere.
    if (is_slight_one || which.empty()) {
      which += (which.empty() ? "" : "; ") + sentence;
    } else {
      which = sentence + "; " + which;
    }
    is_slight = is_slight && is_slight_one;
  }
};

class DcgmReader {
 public:
  Status read(const JsonNode& categories) {
    for (const JsonNode& category : *categories.list()) {
      if (category.is_null()) continue;
      const JsonNode* name = category.at("category");
      const JsonNode* tests = category.at("tests");
      if (tests == nullptr || tests->list() == nullptr) return Error{"a category has no tests"};
      is_software_ = name != nullptr && scalar_text(*name) == "Deployment";
      for (const JsonNode& test : *tests->list()) {
        if (test.is_null()) continue;
        if (auto read = read_test(test); !read) return read;
      }
    }
    return Done{};
  }

  std::vector<PerformanceSample> samples() const {
    std::vector<PerformanceSample> samples;
    for (const auto& [gpu, tally] : tallies_) {
      PerformanceSample sample{dcgm_metric, gpu < 0 ? "" : "gpu" + std::to_string(gpu), {}, ""};
      if (tally.bad > 0) {
        sample.value = tally.bad;
        sample.note = probe_text(tally.which);
        sample.is_slight = tally.is_slight;
      } else if (!tally.unclear.empty()) {
        sample.error = probe_text(tally.unclear);
      } else if (tally.passed > 0) {
        sample.value = 0;
      } else {
        sample.error = "dcgmi skipped each of its " + std::to_string(tally.skipped) + " tests";
      }
      samples.push_back(std::move(sample));
    }
    return samples;
  }

 private:
  static constexpr int node = -1;

  Status read_test(const JsonNode& test) {
    const JsonNode* name = test.at("name");
    if (name == nullptr || name->text() == nullptr) return Error{"a test has no name"};
    const JsonNode* results = test.at("results");
    const JsonNode* summary = test.at("test_summary");
    const bool has_results = results != nullptr && results->list() != nullptr;
    if (!has_results && summary == nullptr)
      return Error{"the test " + *name->text() + " has no results"};
    int bad = 0;
    int failed = 0;
    bool is_told = false;
    if (has_results) {
      for (const JsonNode& result : *results->list()) {
        if (result.is_null()) continue;
        is_told = true;
        bad += take_result(*name->text(), result, subject_of(result)) ? 1 : 0;
        failed += status_of(result.at("status")) == TestStatus::fail ? 1 : 0;
      }
    }
    // What went wrong with the whole test is of no device.
    const auto whole = summary == nullptr ? std::nullopt : status_of(summary->at("status"));
    const bool is_worse =
        (whole == TestStatus::fail && failed == 0) || (whole == TestStatus::warn && bad == 0);
    if (summary != nullptr && (!is_told || is_worse)) take_result(*name->text(), *summary, {});
    if (summary == nullptr && !is_told)
      return Error{"the test " + *name->text() + " has no results"};
    return Done{};
  }

  // Whether it is bad.
  bool take_result(const std::string& test, const JsonNode& result, const Subject& subject) {
    const auto status = status_of(result.at("status"));
    // One result for the software of the node names all GPUs.
    const bool is_of_node = subject.gpus.empty() || (is_software_ && subject.gpus.size() > 1);
    const std::vector<int> devices = is_of_node ? std::vector<int>{node} : subject.gpus;
    const bool is_bad = status == TestStatus::fail || status == TestStatus::warn;
    const std::string sentence = is_bad ? sentence_of(test, result, subject, *status) : "";
    const Warnings warnings = warnings_of(result);
    const bool is_slight = status == TestStatus::warn || (warnings.any && warnings.are_slight);
    for (const int device : devices) {
      Tally& tally = tallies_[device];
      if (is_bad) tally.add_bad(sentence, is_slight);
      if (status == TestStatus::pass) ++tally.passed;
      if (status == TestStatus::skip) ++tally.skipped;
      if (!status && tally.unclear.empty())
        tally.unclear = "dcgmi told of the test " + test + " in no known way";
    }
    return is_bad;
  }

  static std::string sentence_of(const std::string& test, const JsonNode& result,
                                 const Subject& subject, TestStatus status) {
    const std::string part = subject.part.empty() ? "" : " of " + subject.part;
    const std::string why = warnings_of(result).first;
    return test + part + (status == TestStatus::fail ? " failed" : " warned") +
           (why.empty() ? "" : ": " + why);
  }

  bool is_software_ = false;
  std::map<int, Tally> tallies_;
};

// Under the name of either version; nothing where it is not.
const JsonNode* diagnostic_of(const JsonNode& root) {
  for (const char* name : {"DCGM GPU Diagnostic", "DCGM Diagnostic"}) {
    if (const JsonNode* found = root.at(name)) return found;
  }
  return nullptr;
}

std::string last_line(std::string_view text) {
  while (!text.empty() && std::string_view("\n\r ").find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  return probe_text(text.substr(text.rfind('\n') + 1));
}

std::string why_no_report(const ToolRun& run, seconds limit) {
  if (!run.exit_code) return "dcgmi did not end within " + std::to_string(limit.count()) + " s";
  std::string said = last_line(run.errors);
  if (said.empty()) said = last_line(run.output);
  return "dcgmi ended with " + std::to_string(*run.exit_code) + (said.empty() ? "" : ": " + said);
}

using Clock = std::chrono::steady_clock;

// Asked to end, dcgmi stops what it began in the host engine, which is another process.
constexpr std::chrono::seconds stopping_limit{10};

}  // namespace

DcgmLevel dcgm_level(int level) {
  // NVIDIA: seconds, two minutes, a quarter of an hour, "extended". The limits are ours: twice as
  // long and more, since memory and GPUs differ.
  constexpr std::array<DcgmLevel, dcgm_level_max> levels{
      DcgmLevel{seconds(20), minutes(2)}, DcgmLevel{minutes(2), minutes(8)},
      DcgmLevel{minutes(15), minutes(45)}, DcgmLevel{minutes(60), minutes(180)}};
  return levels[static_cast<std::size_t>(std::clamp(level, 1, dcgm_level_max) - 1)];
}

std::vector<std::string> dcgm_argv(int level) {
  return {"dcgmi", "diag", "-r", std::to_string(level), "-j"};
}

Result<std::vector<PerformanceSample>> read_dcgm_report(std::string_view output) {
  // Its libraries may warn beforehand.
  output.remove_prefix(std::min(output.find('{'), output.size()));
  const auto root = read_json(output);
  if (!root) return Error{"the report of dcgmi cannot be read: " + root.error().message};
  const JsonNode* diagnostic = diagnostic_of(*root);
  if (diagnostic == nullptr) return Error{"the report of dcgmi has no diagnostic"};
  for (const JsonNode* each : {diagnostic, &*root}) {
    const JsonNode* error = each->at("runtime_error");
    if (error != nullptr && !error->is_null())
      return Error{"dcgmi: " + probe_text(scalar_text(*error))};
  }
  const JsonNode* categories = diagnostic->at("test_categories");
  if (categories == nullptr || categories->list() == nullptr)
    return Error{"the report of dcgmi has no tests"};
  DcgmReader reader;
  if (auto read = reader.read(*categories); !read)
    return Error{"the report of dcgmi cannot be read: " + read.error().message};
  auto samples = reader.samples();
  if (samples.empty()) return Error{"the report of dcgmi has no tests"};
  return samples;
}

std::vector<PerformanceSample> dcgm_samples(const ToolRun& run, seconds limit) {
  const auto none = [](const std::string& why, bool is_absent = false) {
    return std::vector<PerformanceSample>{
        {dcgm_metric, "", std::nullopt, probe_text(why), is_absent}};
  };
  if (!run.is_found) return none("dcgmi is not installed (package datacenter-gpu-manager)", true);
  if (!run.exit_code) return none(why_no_report(run, limit));
  if (run.is_cut) return none("the report of dcgmi is too long");
  auto samples = read_dcgm_report(run.output);
  if (!samples) {
    const bool is_report = run.output.find('{') != std::string::npos;
    return none(is_report ? samples.error().message : why_no_report(run, limit));
  }
  // A test that failed is told by the code too. A code that no test explains is a fault of the run.
  const bool any_bad = std::ranges::any_of(
      *samples, [](const PerformanceSample& one) { return one.value.value_or(0) > 0; });
  if (*run.exit_code != 0 && !any_bad)
    return none(why_no_report({true, run.exit_code, false, "", run.errors}, limit) +
                ", though no test failed");
  return *std::move(samples);
}

void probe_dcgm(const DcgmProbeOptions& options) {
  const std::chrono::seconds limit =
      options.limit.count() > 0 ? options.limit : dcgm_level(options.level).limit;
  const ToolRun run =
      ToolProcess(dcgm_argv(options.level)).wait(Clock::now() + limit, stopping_limit);
  for (const PerformanceSample& sample : dcgm_samples(run, limit)) print_sample(sample);
}

}  // namespace muster
