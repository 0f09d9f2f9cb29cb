#include "health/benchmark/tools/tools.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Json = nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;

// No node has more; 4294967295 means none.
constexpr int gpu_max = 255;
// DCGM_ERROR_MONITOR: it can work, and should be watched; DCGM_ERROR_CONFIG: a setting is wrong.
constexpr int monitor_severity = 1;
constexpr int config_severity = 5;

// The member of an object; nothing also where this is no object.
const Json* member(const Json& of, const char* name) {
  if (!of.is_object()) return nullptr;
  const auto found = of.find(name);
  return found == of.end() ? nullptr : &*found;
}

const std::string* text_in(const Json* value) {
  return value == nullptr ? nullptr : value->get_ptr<const std::string*>();
}

const Json* list_in(const Json* value) {
  return value != nullptr && value->is_array() ? value : nullptr;
}

enum class TestStatus { pass, fail, warn, skip };

// "Pass", "PASS", "Skip - All"
std::optional<TestStatus> status_of(const Json* node) {
  const std::string* text = text_in(node);
  if (text == nullptr) return std::nullopt;
  const std::string word = lower_case(text->substr(0, text->find(' ')));
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
  const auto gpu = read_integer(word);
  return gpu && *gpu >= 0 && *gpu <= gpu_max ? std::optional(static_cast<int>(*gpu)) : std::nullopt;
}

std::optional<int> gpu_in(const Json& node) {
  if (const std::string* text = text_in(&node)) return gpu_in(std::string_view(*text));
  if (!node.is_number_unsigned()) return std::nullopt;
  const auto number = node.get<std::uint64_t>();
  return number <= gpu_max ? std::optional(static_cast<int>(number)) : std::nullopt;
}

// "0,1,2"
std::vector<int> gpus_in(const std::string& list) {
  std::vector<int> gpus;
  std::string_view rest = list;
  while (!rest.empty()) {
    if (const auto gpu = gpu_in(take_until(rest, ','))) gpus.push_back(*gpu);
  }
  return gpus;
}

// Whom a result is about: GPUs, or, where there are none, the node and a word for what of it.
struct Subject {
  std::vector<int> gpus;
  std::string part;  // "CPU 0"
};

std::string scalar_text(const Json& node) {
  if (const std::string* text = text_in(&node)) return *text;
  return node.is_number_integer() ? node.dump() : "";
}

Subject subject_of(const Json& result) {
  const Json* group = member(result, "entity_group");
  const Json* id = member(result, "entity_id");
  if (group != nullptr && id != nullptr) {
    const bool is_gpu = scalar_text(*group) == "GPU";
    const auto gpu = is_gpu ? gpu_in(*id) : std::nullopt;
    if (gpu) return {{*gpu}, {}};
    return {{}, scalar_text(*group) + " " + scalar_text(*id)};
  }
  if (const Json* gpu_id = member(result, "gpu_id")) {
    const auto gpu = gpu_in(*gpu_id);
    return gpu ? Subject{{*gpu}, {}} : Subject{};
  }
  if (const Json* gpu_ids = member(result, "gpu_ids")) return {gpus_in(scalar_text(*gpu_ids)), {}};
  const Json* cpu = member(result, "cpu_id");
  return cpu == nullptr ? Subject{} : Subject{{}, "CPU " + scalar_text(*cpu)};
}

// A warning is a text, or an object with one under either name.
std::string warning_text(const Json& warning) {
  if (const std::string* text = text_in(&warning)) return *text;
  for (const char* key : {"warning", "warnings"}) {
    if (const std::string* text = text_in(member(warning, key))) return *text;
  }
  return {};
}

struct Warnings {
  std::string first;       // its text
  bool are_slight = true;  // each says that it is
  bool any = false;
};

Warnings warnings_of(const Json& result) {
  Warnings all;
  const Json* node = member(result, "warnings");
  if (node == nullptr) return all;
  for (const Json& warning : node->is_array() ? *node : Json::array({*node})) {
    if (warning.is_null()) continue;
    const Json* severity = member(warning, "error_severity");
    const bool is_slight =
        severity != nullptr && (*severity == monitor_severity || *severity == config_severity);
    all.are_slight = all.are_slight && is_slight;
    all.any = true;
    if (all.first.empty()) all.first = warning_text(warning);
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
  Status read(const Json& categories) {
    for (const Json& category : categories) {
      if (category.is_null()) continue;
      const Json* name = member(category, "category");
      const Json* tests = member(category, "tests");
      if (list_in(tests) == nullptr) return Error{"a category has no tests"};
      is_software_ = name != nullptr && scalar_text(*name) == "Deployment";
      for (const Json& test : *tests) {
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

  Status read_test(const Json& test) {
    const std::string* name = text_in(member(test, "name"));
    if (name == nullptr) return Error{"a test has no name"};
    const Json* results = member(test, "results");
    const Json* summary = member(test, "test_summary");
    const bool has_results = list_in(results) != nullptr;
    if (!has_results && summary == nullptr) return Error{"the test " + *name + " has no results"};
    int bad = 0;
    int failed = 0;
    bool is_reported = false;
    if (has_results) {
      for (const Json& result : *results) {
        if (result.is_null()) continue;
        is_reported = true;
        bad += take_result(*name, result, subject_of(result)) ? 1 : 0;
        failed += status_of(member(result, "status")) == TestStatus::fail ? 1 : 0;
      }
    }
    // What went wrong with the whole test is of no device.
    const auto whole = summary == nullptr ? std::nullopt : status_of(member(*summary, "status"));
    const bool is_worse =
        (whole == TestStatus::fail && failed == 0) || (whole == TestStatus::warn && bad == 0);
    if (summary != nullptr && (!is_reported || is_worse)) take_result(*name, *summary, {});
    if (summary == nullptr && !is_reported) return Error{"the test " + *name + " has no results"};
    return Done{};
  }

  // Whether it is bad.
  bool take_result(const std::string& test, const Json& result, const Subject& subject) {
    const auto status = status_of(member(result, "status"));
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
        tally.unclear = "dcgmi reported the test " + test + " in no known way";
    }
    return is_bad;
  }

  static std::string sentence_of(const std::string& test, const Json& result,
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
const Json* diagnostic_of(const Json& root) {
  for (const char* name : {"DCGM GPU Diagnostic", "DCGM Diagnostic"}) {
    if (const Json* found = member(root, name)) return found;
  }
  return nullptr;
}

constexpr BenchmarkTool dcgm{"dcgmi", "datacenter-gpu-manager"};

std::string why_no_report(const ToolRun& run, seconds limit) {
  if (!run.exit_code) return "dcgmi did not end within " + std::to_string(limit.count()) + " s";
  return why_no_number(dcgm, run);
}

using Clock = std::chrono::steady_clock;

// Asked to end, dcgmi stops what it began in the host engine, which is another process.
constexpr std::chrono::seconds stopping_limit{10};

// The samples of each device that is told of, and of the node where tests are of no device. A test
// that passed or was skipped is no fault; a device whose tests were all skipped has no number.
Result<std::vector<PerformanceSample>> read_dcgm_report(std::string_view output) {
  // Its libraries may warn beforehand.
  output.remove_prefix(std::min(output.find('{'), output.size()));
  const Json root = Json::parse(output, nullptr, false);
  if (root.is_discarded()) return Error{"the report of dcgmi is no JSON"};
  const Json* diagnostic = diagnostic_of(root);
  if (diagnostic == nullptr) return Error{"the report of dcgmi has no diagnostic"};
  for (const Json* each : {diagnostic, &root}) {
    const Json* error = member(*each, "runtime_error");
    if (error != nullptr && !error->is_null())
      return Error{"dcgmi: " + probe_text(scalar_text(*error))};
  }
  const Json* categories = list_in(member(*diagnostic, "test_categories"));
  if (categories == nullptr) return Error{"the report of dcgmi has no tests"};
  DcgmReader reader;
  if (auto read = reader.read(*categories); !read)
    return Error{"the report of dcgmi cannot be read: " + read.error().message};
  auto samples = reader.samples();
  if (samples.empty()) return Error{"the report of dcgmi has no tests"};
  return samples;
}

}  // namespace

DcgmLevel dcgm_level(int level) {
  // NVIDIA: seconds, two minutes, a quarter of an hour, "extended". The limits are ours: twice as
  // long and more, since memory and GPUs differ.
  constexpr std::array<DcgmLevel, dcgm_level_max> levels{
      DcgmLevel{seconds(20), minutes(2)}, DcgmLevel{minutes(2), minutes(8)},
      DcgmLevel{minutes(15), minutes(45)}, DcgmLevel{minutes(60), minutes(180)}};
  return levels[static_cast<std::size_t>(std::clamp(level, 1, dcgm_level_max) - 1)];
}

std::vector<PerformanceSample> dcgm_samples(const ToolRun& run, seconds limit) {
  const auto none = [](const std::string& why) {
    return std::vector<PerformanceSample>{no_number(dcgm_metric, why)};
  };
  if (!run.is_found) return {no_number(dcgm_metric, dcgm, run)};
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

std::vector<PerformanceSample> run_dcgm(int level, seconds limit) {
  ToolProcess tool({"dcgmi", "diag", "-r", std::to_string(level), "-j"});
  return dcgm_samples(tool.wait(Clock::now() + limit, stopping_limit), limit);
}

}  // namespace muster
