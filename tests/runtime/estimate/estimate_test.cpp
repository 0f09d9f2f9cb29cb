// Estimates against figures that others have published, and against each other.

#include "runtime/estimate/estimate.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/estimate/rank_memory.h"
#include "runtime/protocol/start_error.h"
#include "tests/catch.h"

using namespace muster;

namespace {

EstimateQuestion asked(std::vector<const char*> words) {
  words.insert(words.begin(), "estimate");
  const auto parsed = parse_estimate(static_cast<int>(words.size()), words.data());
  REQUIRE(std::holds_alternative<EstimateRequest>(parsed));
  return std::get<EstimateRequest>(parsed).question;
}

const StageEstimate& stage_of(const Estimate& estimate, ZeroStage stage, bool recomputes) {
  for (const StageEstimate& row : estimate.stages) {
    if (row.stage == stage && row.recomputes == recomputes) return row;
  }
  throw std::logic_error("no such stage");
}

// The lines of a text, each cut where two blanks or more are.
std::vector<std::vector<std::string>> cells_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find("  ", at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = std::min(line.find_first_not_of(' ', end), line.size());
    }
  }
  return rows;
}

// From its heading on.
std::string table_of(const Estimate& estimate) {
  const std::string text = estimate_text(estimate);
  const std::size_t begin = text.find("ZERO ");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("\n\n", begin) + 1 - begin);
}

}  // namespace

// Published for A100-80 and ZeRO-3 with recomputation: TFLOP/s per GPU of 312.
TEST_CASE("the step times of 175B to 2T follow from the published rates") {
  struct Published {
    const char* model;
    const char* ranks;
    const char* micro_batch;
    const char* context;
    double tflops;
    double flops_per_sequence;  // at context 1024, with recomputation
  };
  const Published rows[] = {{"175B", "256", "32", "512", 204.49, 1.449e15},
                            {"530B", "1024", "4", "1024", 171.37, 4.372e15},
                            {"1T", "1024", "8", "1024", 165.36, 8.309e15},
                            {"2T", "1024", "8", "1024", 157.0, 1.699e16}};
  for (const Published& row : rows) {
    INFO(row.model);
    const std::string share = std::to_string(row.tflops / 312);
    const EstimateQuestion question =
        asked({"--model", row.model, "--ranks", row.ranks, "--micro-batch", row.micro_batch,
               "--context", row.context, "--zero", "3", "--recompute", "--sku",
               "Standard_ND96amsr_A100_v4", "--utilisation", share.c_str()});
    const Estimate estimate = make_estimate(question);
    CHECK(estimate.time.flops / estimate.time.compute_s / 1e12 == Approx(row.tflops).epsilon(1e-4));
    if (std::string(row.context) == "1024") {
      const double sequences = std::stod(row.micro_batch);
      CHECK(estimate.time.flops / sequences == Approx(row.flops_per_sequence).epsilon(1e-3));
    } else {
      CHECK(estimate.time.flops == Approx(2.302e16).epsilon(1e-3));
      CHECK(estimate.time.compute_s == Approx(112.6).epsilon(1e-3));
    }
    CHECK(estimate.time.hidden_s() <= estimate.time.exposed_s());
  }
}

// The arithmetic of the reference for one H200: 28.0 GB of states, 80.5 of activations, 3.3 of
// logits.
TEST_CASE("GPT-2 1558M with 32 sequences and fp32 gradients fits one H200") {
  const EstimateQuestion question =
      asked({"--model", "gpt2-1558m", "--ranks", "1", "--micro-batch", "32", "--batch", "64",
             "--zero", "0", "--sku", "ND96isr_H200_v5"});
  const Estimate estimate = make_estimate(question);
  const RankMemory& memory = estimate.asked.memory;
  CHECK(static_cast<double>(memory.weights + memory.gradients + memory.optimizer) ==
        Approx(28.0e9).epsilon(5e-3));
  CHECK(static_cast<double>(memory.activations) == Approx(80.5e9 + 3.3e9).epsilon(0.02));
  CHECK(estimate.asked.fits == true);
  const auto a100 = asked({"--model", "gpt2-1558m", "--ranks", "1", "--micro-batch", "32",
                           "--batch", "64", "--zero", "0", "--sku", "ND96amsr_A100_v4"});
  CHECK(make_estimate(a100).asked.fits == false);
}

TEST_CASE("higher stages take less, and recomputation does") {
  for (const char* sku : {"ND96amsr_A100_v4", "HB120rs_v3"}) {
    const Estimate estimate = make_estimate(
        asked({"--model", "gpt2-1558m", "--ranks", "8", "--micro-batch", "1", "--sku", sku}));
    const RankKind kind = estimate.question.layout.kind;
    std::uint64_t before = ~0ull;
    for (const ZeroStage stage :
         {ZeroStage::nothing, ZeroStage::moments, ZeroStage::gradients, ZeroStage::weights}) {
      const auto bytes = device_bytes(stage_of(estimate, stage, false).memory, kind);
      CHECK(bytes < before);
      CHECK(device_bytes(stage_of(estimate, stage, true).memory, kind) < bytes);
      before = bytes;
    }
  }
}

TEST_CASE("what does not fit gets three changes that make it fit, more ranks last") {
  const Estimate estimate =
      make_estimate(asked({"--model", "175b", "--ranks", "64", "--micro-batch", "8", "--zero", "1",
                           "--sku", "ND96isr_H100_v5"}));
  CHECK(estimate.asked.fits == false);
  REQUIRE(estimate.changes.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const FittingChange& change = estimate.changes[i];
    CHECK(fits(change.memory, *estimate.question.limit, RankKind::gpu));
    CHECK(
        fits(rank_memory(change.options, change.layout), *estimate.question.limit, RankKind::gpu));
    CHECK_FALSE(change.what.empty());
  }
  CHECK(estimate.changes[0].layout.ranks == 64);
  CHECK_THAT(estimate_text(estimate), ContainsSubstring("does not fit"));
  CHECK_THAT(estimate_text(estimate), ContainsSubstring(estimate.changes[0].what));
}

TEST_CASE("a model that no change helps says so") {
  const Estimate estimate = make_estimate(
      asked({"--model", "2t", "--ranks", "1", "--micro-batch", "1", "--memory-gib", "0.5"}));
  CHECK(estimate.asked.fits == false);
  CHECK(estimate.changes.empty());
}

TEST_CASE("ranks of one machine use its links, those of several the cards between them") {
  const auto sku = find_sku("standard_nd96amsr_a100_v4");
  REQUIRE(sku);
  CHECK(link_bytes_per_s(*sku, false) == Approx(228e9));
  CHECK(link_bytes_per_s(*sku, true) == Approx(188e9));
  CHECK(link_bytes_per_s(*find_sku("ND96is_H100_v5"), true) == Approx(9.4e9));
  CHECK_FALSE(find_sku("ND96amsr"));
}

// Bytes per parameter and step of k micro-batches: 4, 4, 2k + 2, 6k.
TEST_CASE("bytes that ranks send follow the stage and the number of micro-batches") {
  const auto bytes = [](const char* stage, const char* batch, const char* device = "gpu") {
    const EstimateQuestion question =
        asked({"--model", "gpt2-124m", "--ranks", "2", "--device", device, "--micro-batch", "1",
               "--batch", batch, "--zero", stage});
    const StepTime time = step_time(question.options, question.layout, question.rates);
    return time.bytes / static_cast<double>(parameter_count(question.options.shape)) * 2;
  };
  CHECK(bytes("0", "2") == Approx(4));
  CHECK(bytes("1", "8") == Approx(4));
  CHECK(bytes("2", "2") == Approx(4));
  CHECK(bytes("2", "8") == Approx(10));
  CHECK(bytes("3", "2") == Approx(6));
  CHECK(bytes("3", "8") == Approx(24));
  CHECK(bytes("2", "8", "cpu") == Approx(2 * 4));
  CHECK(bytes("3", "8", "cpu") == Approx(2 * (16 + 2)));
}

TEST_CASE("gradients that --zero 2 leaves whole are in the estimate, and said") {
  const auto estimate_of = [](const char* micro_batch) {
    return make_estimate(asked({"--model", "gpt2-124m", "--ranks", "4", "--batch", "16",
                                "--micro-batch", micro_batch, "--zero", "2"}));
  };
  const Estimate one_pass = estimate_of("4");
  const Estimate many = estimate_of("1");
  const std::uint64_t whole = gpt_flat_space(many.question.options.shape).numel * sizeof(float);
  CHECK(one_pass.asked.memory.gradients < whole);
  CHECK(many.asked.memory.gradients >= whole);
  const char* sentence = "--zero: every rank holds whole gradients, as the 16 micro-batches";
  CHECK_THAT(estimate_text(many), ContainsSubstring(sentence));
  CHECK_THAT(estimate_text(one_pass), !ContainsSubstring(sentence));
  const auto run = run_memory({"--batch", "16", "--micro-batch", "1", "--zero", "2"},
                              {RankKind::processor, 2, 2}, std::nullopt);
  REQUIRE(std::get<RunMemory>(run).remarks.size() == 1);
  CHECK_THAT(std::get<RunMemory>(run).remarks.front(), ContainsSubstring(sentence));
}

TEST_CASE("the time of a step is that of the rank with most sequences") {
  const auto seconds = [](const char* ranks) {
    return make_estimate(asked({"--ranks", ranks, "--batch", "16", "--micro-batch", "1",
                                "--peak-tflops", "0.1"}))
        .time.compute_s;
  };
  const double one = seconds("1");
  CHECK(seconds("2") == Approx(one * 8 / 16));
  CHECK(seconds("3") == Approx(one * 6 / 16));
  CHECK(seconds("5") == Approx(one * 4 / 16));
  CHECK(seconds("7") == Approx(one * 3 / 16));
  const Estimate seven = make_estimate(asked({"--ranks", "7", "--batch", "16"}));
  CHECK_THAT(estimate_text(seven), ContainsSubstring("at most 3 of them on a rank"));
  CHECK(nlohmann::json::parse(estimate_json(seven)).at("most_sequences_per_rank") == 3);
}

TEST_CASE("an estimate as JSON holds the same figures") {
  const Estimate estimate = make_estimate(asked(
      {"--model", "gpt2-124m", "--ranks", "2", "--peak-tflops", "0.1", "--memory-gib", "64"}));
  const auto json = nlohmann::json::parse(estimate_json(estimate));
  CHECK(json.at("stages").size() == 8);
  CHECK(json.at("device") == "cpu");
  CHECK(json.at("asked").at("total_bytes") ==
        device_bytes(estimate.asked.memory, RankKind::processor));
  CHECK(json.at("asked").at("fits") == true);
  CHECK(json.at("step").at("compute_s").get<double>() == Approx(estimate.time.compute_s));
}

TEST_CASE("questions that make no sense are refused with a sentence") {
  CHECK_THROWS_WITH(asked({"--model", "gpt5"}), ContainsSubstring("--model: no model is called"));
  CHECK_THROWS_WITH(asked({"--sku", "Standard_X"}), ContainsSubstring("--sku: no size is called"));
  CHECK_THROWS_WITH(asked({"--sku", "HC44rs", "--device", "gpu"}), ContainsSubstring("has none"));
  const EstimateQuestion hungry = asked({"--ranks", "3", "--batch", "2"});
  CHECK_THROWS_WITH(make_estimate(hungry), ContainsSubstring("--batch: 2 sequences cannot feed"));
  const EstimateQuestion heads = asked({"--heads", "3"});
  CHECK_THROWS_WITH(make_estimate(heads), ContainsSubstring("--heads"));
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"estimate", "--ranks", "0"},
                                             {"estimate", "--output", "xml"},
                                             {"estimate", "--utilisation", "2"},
                                             {"estimate", "--gpus"}}) {
    const auto parsed = parse_estimate(static_cast<int>(words.size()), words.data());
    REQUIRE(std::holds_alternative<int>(parsed));
    CHECK(std::get<int>(parsed) == exit_cannot_start);
  }
}

TEST_CASE("the words of a run are enough for its memory") {
  const auto small = run_memory({"--width", "64"}, {}, std::nullopt);
  const auto large = run_memory({"--width", "1024"}, {}, std::nullopt);
  REQUIRE(std::holds_alternative<RunMemory>(small));
  REQUIRE(std::holds_alternative<RunMemory>(large));
  CHECK(std::get<RunMemory>(small).bytes < std::get<RunMemory>(large).bytes);
  CHECK(std::get<RunMemory>(large).bytes > 4 * 4 * 2 * 12 * 1024 * 1024);
  CHECK(std::holds_alternative<std::string>(run_memory({"--width", "x"}, {}, std::nullopt)));
}

TEST_CASE("a table tells the memory of all stages, and what fits where there is a limit") {
  const bool is_limited = GENERATE(false, true);
  std::vector<const char*> words{"--model", "gpt2-1558m", "--ranks", "2", "--micro-batch", "8"};
  if (is_limited) words.insert(words.end(), {"--memory-gib", "40"});
  const Estimate estimate = make_estimate(asked(words));
  const std::string table = table_of(estimate);
  const auto rows = cells_of(table);
  REQUIRE(rows.size() == 1 + estimate.stages.size());
  std::vector<std::string> heading{"ZERO",    "WEIGHTS", "GRADIENTS", "OPTIMIZER", "ACTIVATIONS",
                                   "BUFFERS", "PROGRAM", "SNAPSHOT",  "TOTAL"};
  if (is_limited) heading.push_back("FITS");
  CHECK(rows[0] == heading);
  std::set<std::string> verdicts;
  for (std::size_t i = 0; i < estimate.stages.size(); ++i) {
    const StageEstimate& stage = estimate.stages[i];
    const auto& row = rows[i + 1];
    REQUIRE(row.size() == heading.size());
    const std::string name = std::to_string(static_cast<int>(stage.stage));
    CHECK(row[0] == name + (stage.recomputes ? " recomputed" : ""));
    const std::uint64_t bytes[] = {
        stage.memory.weights,   stage.memory.gradients,
        stage.memory.optimizer, stage.memory.activations,
        stage.memory.buffers,   stage.memory.program,
        stage.memory.snapshot,  device_bytes(stage.memory, RankKind::processor)};
    for (std::size_t column = 0; column < std::size(bytes); ++column) {
      CAPTURE(row[0], heading[column + 1]);
      CHECK(std::stod(row[column + 1]) ==
            Approx(static_cast<double>(bytes[column]) / gib).epsilon(0.005).margin(0.0006));
    }
    if (is_limited) CHECK(row.back() == (*stage.fits ? "yes" : "no"));
    if (is_limited) verdicts.insert(row.back());
  }
  CHECK(verdicts.size() == (is_limited ? 2 : 0));
  // All lines are as long as the first.
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() == table.find('\n'));
}

TEST_CASE("the text says whether it fits, and what of it does not") {
  Estimate estimate = make_estimate(asked(
      {"--model", "gpt2-124m", "--ranks", "1", "--micro-batch", "1", "--sku", "NC24ads_A100_v4"}));
  const RankMemory& memory = estimate.asked.memory;
  const auto text_with = [&](std::uint64_t device, std::optional<std::uint64_t> host) {
    estimate.question.limit = MemoryLimit{device, host};
    estimate.asked.fits = fits(memory, *estimate.question.limit, RankKind::gpu);
    return estimate_text(estimate);
  };
  const std::uint64_t needed = device_bytes(memory, RankKind::gpu);
  CHECK_THAT(text_with(needed, memory.snapshot), ContainsSubstring("GiB: fits\n"));
  CHECK_THAT(text_with(needed, {}), ContainsSubstring("GiB: fits\n"));
  const std::string small = text_with(needed - 1, memory.snapshot);
  CHECK_THAT(small, ContainsSubstring("GiB: does not fit\n"));
  CHECK_THAT(small, ContainsSubstring("none of the usual changes makes it fit\n"));
  CHECK_THAT(small, !ContainsSubstring("of the host"));
  const std::string host = text_with(needed, memory.snapshot - 1);
  CHECK_THAT(host, ContainsSubstring("GiB: does not fit\n"));
  CHECK_THAT(host, ContainsSubstring("the snapshot of a checkpoint takes"));
  CHECK_THAT(host, ContainsSubstring("GiB of the host\n"));
  const Estimate unlimited = make_estimate(asked({"--model", "gpt2-124m", "--ranks", "1"}));
  REQUIRE_FALSE(unlimited.question.limit);
  CHECK_THAT(estimate_text(unlimited), !ContainsSubstring("fit\n"));
  // On a processor the snapshot is in what the device holds.
  CHECK(fits(memory, {device_bytes(memory, RankKind::processor), 0}, RankKind::processor));
  CHECK_FALSE(fits(memory, {needed, 0}, RankKind::gpu));
}

TEST_CASE("the text begins with the model, and with what it runs on") {
  const auto text = [](std::vector<const char*> words) {
    return estimate_text(make_estimate(asked(std::move(words))));
  };
  const std::string gpus = text({"--model", "GPT2-124M", "--ranks", "16", "--micro-batch", "2",
                                 "--sku", "Standard_ND96amsr_A100_v4"});
  CHECK_THAT(gpus, ContainsSubstring(": 12 layers of 768, 12 heads, context 1024, vocabulary"));
  CHECK_THAT(gpus, ContainsSubstring("16 ranks on 2 ND96amsr_A100_v4, 2 sequences per forward"));
  CHECK_THAT(gpus, ContainsSubstring("on a rank, bf16\n"));
  CHECK_THAT(gpus, ContainsSubstring("(of GPUs in general"));
  CHECK_THAT(gpus, ContainsSubstring("HOST SNAPSHOT"));
  CHECK_THAT(gpus, ContainsSubstring("communication: "));
  CHECK_THAT(gpus, ContainsSubstring("step, communication hidden: "));
  CHECK_THAT(gpus, ContainsSubstring("step, nothing hidden: "));
  CHECK_THAT(gpus, !ContainsSubstring("HFU"));
  const std::string one = text({"--ranks", "1"});
  CHECK_THAT(one, ContainsSubstring("1 ranks on 1 machine, "));
  CHECK_THAT(one, ContainsSubstring("on a rank, fp32\n"));
  CHECK_THAT(one, !ContainsSubstring("GPUs in general"));
  CHECK_THAT(one, !ContainsSubstring("HOST SNAPSHOT"));
  CHECK_THAT(one, !ContainsSubstring("communication"));
  CHECK_THAT(one, ContainsSubstring("step time: not known without a peak"));
  CHECK_THAT(text({"--ranks", "1", "--precision", "bf16"}), ContainsSubstring("rank, bf16\n"));
  const std::string again = text({"--ranks", "1", "--peak-tflops", "1", "--recompute"});
  CHECK_THAT(again, ContainsSubstring("per rank and step, recomputation included, at"));
  CHECK_THAT(again, ContainsSubstring(", HFU "));
}

TEST_CASE("names of models and sizes are found however they are written, and no others") {
  CHECK(named_shape("gpt2-1558m")->width == 1600);
  CHECK(named_shape("GPT2-1558M")->layers == 48);
  CHECK(named_shape("175B")->heads == 96);
  for (const char* name : {"", "gpt2", "gpt2-1558", "gpt2-1558mm", "175b "}) {
    CHECK_FALSE(named_shape(name));
  }
  CHECK(find_sku("hc44RS")->name == std::string_view("HC44rs"));
  CHECK(find_sku("STANDARD_HC44rs")->name == std::string_view("HC44rs"));
  for (const char* name : {"", "Standard_", "HC44r", "HC44rss", "Standard_Standard_HC44rs"}) {
    CHECK_FALSE(find_sku(name));
  }
  for (const char* name : {"gpt2-124m", "gpt2-774m", "gpt3-xl", "2t"}) {
    CHECK_THAT(names_of_shapes(), ContainsSubstring(name));
    CHECK(named_shape(name));
  }
  CHECK_THAT(names_of_skus(), ContainsSubstring("ND40rs_v2, ND96asr_v4, "));
}

TEST_CASE("a smaller micro-batch that would make it fit divides the batch") {
  const auto smaller = [](const char* batch, std::uint64_t fitting) {
    EstimateQuestion question =
        asked({"--batch", batch, "--micro-batch", batch, "--zero", "3", "--recompute"});
    question.layout.ranks = 1;
    TrainOptions small = question.options;
    small.micro_batch = fitting;
    const RankMemory memory = rank_memory(small, question.layout);
    const MemoryLimit limit{device_bytes(memory, RankKind::processor), {}};
    const auto changes = cheapest_changes(question.options, question.layout, limit, {});
    return changes.empty() ? "none" : changes.front().what;
  };
  CHECK(smaller("8", 4) == "--micro-batch 4");
  CHECK(smaller("9", 3) == "--micro-batch 3");
  CHECK(smaller("10", 5) == "--micro-batch 5");
  CHECK(smaller("10", 2) == "--micro-batch 2");
  CHECK(smaller("7", 1) == "--micro-batch 1");
}
