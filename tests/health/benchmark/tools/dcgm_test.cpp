#include "health/benchmark/tools/tools.h"

#include <array>

#include "tests/health/benchmark/tools/tool_output.h"
#include "tests/health/ended_tool.h"

using namespace muster;
using std::chrono::seconds;

namespace {

// Synthetic, in the forms that dcgmi/Diag.cpp of DCGM 3.3 and the tests of DCGM 4 have.
// "gpu1 2 fail …", "- unknown …": a sample in a line.
std::string line_of(const PerformanceSample& sample) {
  const std::string device = sample.device.empty() ? "-" : sample.device;
  if (!sample.value) return device + (sample.is_absent ? " absent " : " unknown ") + sample.error;
  if (*sample.value == 0) return device + " 0";
  return device + " " + std::to_string(static_cast<int>(*sample.value)) +
         (sample.is_slight ? " warn " : " fail ") + sample.note;
}
using Lines = std::vector<std::string>;
Lines lines_of(const std::vector<PerformanceSample>& samples) {
  Lines lines;
  for (const PerformanceSample& sample : samples) {
    CHECK(sample.metric == dcgm_metric);
    lines.push_back(line_of(sample));
  }
  return lines;
}
Lines judged(const ToolRun& run) {
  return lines_of(dcgm_samples(run, seconds(120)));
}

// One test with these results.
std::string report(const std::string& results, const std::string& category = "Hardware") {
  return R"({"DCGM GPU Diagnostic": {"test_categories": [{"category": ")" + category +
         R"(", "tests": [{"name": "GPU Memory", "results": )" + results + "}]}]}}";
}
Lines read(const std::string& results, const std::string& category = "Hardware") {
  return judged(ended(0, report(results, category)));
}

std::string with_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("tests of DCGM 3 that fail name their GPU and say why") {
  const std::string text = tool_output("dcgm3-memory-fails.json");
  CHECK(judged(ended(205, text)) ==
        Lines{"- 0", "gpu0 0",
              "gpu1 2 fail GPU Memory failed: GPU 1 has 3 errors at 0x7f00; Page Retirement/Row "
              "Remap failed: GPU 1 had uncorrectable memory errors and row remapping failed. Run a "
              "field diagnostic on the GPU."});
  CHECK(judged(ended(0, with_all(text, "\"Fail\"", "\"Pass\""))) ==
        Lines{"- 0", "gpu0 0", "gpu1 0"});
}

TEST_CASE("a setting that DCGM 4 dislikes is a warning, and what is no GPU is told of the node") {
  const std::string text = tool_output("dcgm4-persistence-warns.json");
  CHECK(judged(ended(226, text)) ==
        Lines{"- 1 fail cpu_eud of CPU 0 failed", "gpu0 0",
              "gpu1 1 warn software failed: Persistence Mode: Persistence mode for GPU 1 is "
              "disabled."});
  // Of another severity, and of none, it is grave.
  for (const std::string severity : {"\"error_severity\": 2", "\"severity\": 5"}) {
    const auto grave = judged(ended(226, with_all(text, "\"error_severity\": 5", severity)));
    REQUIRE(grave.size() == 3);
    CHECK_THAT(grave[2], ContainsSubstring("gpu1 1 fail "));
  }
}

TEST_CASE("results are of the GPUs that they name, under whichever key") {
  const std::string fail = R"("status": "FAIL", "warnings": ["broken"])";
  const std::string said = " 1 fail GPU Memory failed: broken";
  CHECK(read(R"([{"gpu_ids": "3", )" + fail + "}]") == Lines{"gpu3" + said});
  CHECK(read(R"([{"gpu_ids": "3, 5", )" + fail + "}]") == Lines{"gpu3" + said, "gpu5" + said});
  CHECK(read(R"([{"gpu_ids": 3, )" + fail + "}]") == Lines{"gpu3" + said});
  CHECK(read(R"([{"gpu_id": "12", )" + fail + "}]") == Lines{"gpu12" + said});
  CHECK(read(R"([{"entity_group": "GPU", "entity_id": 7, )" + fail + "}]") == Lines{"gpu7" + said});
  // The software's one result is of the whole node.
  CHECK(read(R"([{"gpu_ids": "0,1,2,3", )" + fail + "}]", "Deployment") == Lines{"-" + said});
  for (const std::string nobody :
       {R"("gpu_id": 4294967295)", R"("gpu_id": -1)", R"("gpu_id": 1.5)", R"("gpu_id": "x")",
        R"("gpu_ids": "")", R"("gpu_id": null)", R"("a": 1)"}) {
    INFO(nobody);
    CHECK(read("[{" + nobody + ", " + fail + "}]") == Lines{"-" + said});
  }
  CHECK(read(R"([{"cpu_id": "1", )" + fail + "}]") ==
        Lines{"- 1 fail GPU Memory of CPU 1 failed: broken"});
}

TEST_CASE("a device of which DCGM tested nothing, or said nothing known, is no pass") {
  CHECK(read(R"([{"gpu_id": "0", "status": "Skip"}])") ==
        Lines{"gpu0 unknown dcgmi skipped each of its 1 tests"});
  CHECK(read(R"([{"gpu_id": "0", "status": "Skip - All"}, {"gpu_id": "0", "status": "Pass"}])") ==
        Lines{"gpu0 0"});
  for (const std::string status :
       {R"("Insufficient Resources")", R"("")", "1", "null", R"("Passed?")"}) {
    INFO(status);
    CHECK(read(R"([{"gpu_id": "0", "status": "Pass"}, {"gpu_id": "0", "status": )" + status +
               "}]") == Lines{"gpu0 unknown dcgmi reported the test GPU Memory in no known way"});
  }
  CHECK(read(R"([{"gpu_id": "0", "status": "x"}, {"gpu_id": "0", "status": "Fail"}])") ==
        Lines{"gpu0 1 fail GPU Memory failed"});
}

TEST_CASE("what goes wrong with a whole test is of the node") {
  const auto whole = [](const std::string& status, const std::string& of_gpu) {
    return judged(ended(1, R"({"DCGM Diagnostic": {"test_categories": [{"category": "Stress",
        "tests": [{"name": "memtest", "results": [{"entity_group": "GPU", "entity_id": 0,
        "status": ")" + of_gpu +
                               R"("}], "test_summary": {"status": ")" + status + R"("}}]}]}})"));
  };
  CHECK(whole("Fail", "Pass") == Lines{"- 1 fail memtest failed", "gpu0 0"});
  CHECK(whole("Warn", "Skip")[0] == "- 1 warn memtest warned");
  CHECK(whole("Fail", "Fail") == Lines{"gpu0 1 fail memtest failed"});
}

TEST_CASE("a run of dcgmi that says nothing sound is unknown, with the reason") {
  const auto only = [](const ToolRun& run) {
    const Lines lines = judged(run);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK(only(not_installed()) ==
        "- absent dcgmi is not installed (package datacenter-gpu-manager)");
  ToolRun hung;
  hung.output = report(R"([{"gpu_id": "0", "status": "Pass"}])");
  CHECK(only(hung) == "- unknown dcgmi did not end within 120 s");
  ToolRun cut = ended(0, hung.output);
  cut.is_cut = true;
  CHECK(only(cut) == "- unknown the report of dcgmi is too long");
  CHECK(
      only(ended(1, "", "Error: unable to establish a connection to the host engine.\n")) ==
      "- unknown dcgmi ended with 1: Error: unable to establish a connection to the host engine.");
  CHECK(only(ended(0, "")) == "- unknown dcgmi ended with 0");
  CHECK(only(ended(0, "All passed!\n")) == "- unknown dcgmi ended with 0: All passed!");
  // A code that no test explains.
  CHECK(only(ended(3, hung.output)) == "- unknown dcgmi ended with 3, though no test failed");
  CHECK(only(ended(1, R"({"DCGM GPU Diagnostic": {"runtime_error": "paused", "version": "3"}})")) ==
        "- unknown dcgmi: paused");
  for (
      const std::string bad :
      {"{", "{}", "{\"a\": 1}", R"({"DCGM GPU Diagnostic": 1})", R"({"DCGM GPU Diagnostic": {}})",
       R"({"DCGM Diagnostic": {"test_categories": []}})",
       R"({"DCGM Diagnostic": {"test_categories": {}}})",
       R"({"DCGM Diagnostic": {"test_categories": [1]}})",
       R"({"DCGM Diagnostic": {"test_categories": [null]}})",
       R"({"DCGM Diagnostic": {"test_categories": [{"tests": 1}]}})",
       R"({"DCGM Diagnostic": {"test_categories": [{"tests": [{}]}]}})",
       R"({"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": 1}]}]}})",
       R"({"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "a"}]}]}})",
       R"({"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "a", "results": []}]}]}})",
       R"({"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "a", "results": 1}]}]}})"}) {
    INFO(bad);
    CHECK_THAT(only(ended(0, bad)), ContainsSubstring("- unknown the report of dcgmi "));
  }
  std::string deep = R"({"DCGM Diagnostic": {"test_categories": )";
  deep += std::string(500'000, '[');
  CHECK_THAT(only(ended(0, deep)), ContainsSubstring("no JSON"));
  const std::string whole = tool_output("dcgm3-memory-fails.json");
  const std::size_t end = whole.find_last_of('}');
  for (std::size_t size = 0; size <= end; size += 7)
    CHECK_THAT(only(ended(0, whole.substr(0, size))), ContainsSubstring("unknown"));
}

TEST_CASE("lines before the report are passed over, those after it are not") {
  const std::string good = report(R"([{"gpu_id": "0", "status": "Pass"}])");
  CHECK(judged(ended(0, "WARNING: odd\n\t" + good + "\n")) == Lines{"gpu0 0"});
  CHECK_THAT(judged(ended(0, good + "Killed"))[0], ContainsSubstring("unknown"));
}

TEST_CASE("no report makes its reader fail, and nothing broken passes for a whole") {
  std::mt19937 random(20260502);
  const std::array<std::string, 2> bases{tool_output("dcgm3-memory-fails.json"),
                                         tool_output("dcgm4-persistence-warns.json")};
  for (int round = 0; round < 3000; ++round) {
    const std::string text = garbled(bases[random() % 2], random);
    const auto samples = dcgm_samples(ended(static_cast<int>(random() % 2), text), seconds(1));
    REQUIRE_FALSE(samples.empty());
    for (const PerformanceSample& sample : samples) {
      REQUIRE(sample.value.has_value() == sample.error.empty());
      REQUIRE((sample.value.value_or(0) > 0) == !sample.note.empty());
    }
  }
}
