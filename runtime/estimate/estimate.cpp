#include "runtime/estimate/estimate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>

#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"
#include "runtime/train/step/options.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr double gb_in_gib = 1e9 / (1024.0 * 1024 * 1024);
// Of the CPU sizes, as the kernel counts them (/proc/meminfo): powers of two.
constexpr double mb_in_gib = 1.0 / 1024;
constexpr double kb_in_gib = 1.0 / (1024 * 1024);

// Two A100 machines with 8 x 200 Gb/s have 188 GB/s of all-reduce bus bandwidth at 8 GiB: 94 % of
// what the cards carry.
constexpr double share_of_cards = 0.94;

// Machines, memory, cards: Microsoft's pages of virtual machine sizes, which write GB and GiB as
// they are here; GPU memory "80 GB" is 80 GiB (nvidia-smi: 81920 MiB on an A100). Bandwidth inside
// a machine: the lowest value that Azure's node health checks let pass; without one, PCIe's H2D.
// Peaks: NVIDIA's and AMD's data sheets, dense. No floors are published for GB200 and GB300; theirs
// are those of the H100.
constexpr SkuFacts skus[] = {
    {"ND40rs_v2", 8, "V100", 32, 125, 110, 1, 100, 24, 672},
    {"ND96asr_v4", 8, "A100", 40, 312, 228, 8, 200, 24, 900},
    {"ND96amsr_A100_v4", 8, "A100", 80, 312, 228, 8, 200, 24, 1900 * gb_in_gib},
    {"ND96isr_H100_v5", 8, "H100", 80, 989.4, 460, 8, 400, 80, 1900 * gb_in_gib},
    {"ND96is_H100_v5", 8, "H100", 80, 989.4, 460, 0, 0, 80, 1900 * gb_in_gib},
    {"ND96isr_H200_v5", 8, "H200", 141, 989.4, 431, 8, 400, 80, 1850 * gb_in_gib},
    {"ND96isrf_H200_v5", 8, "H200", 141, 989.4, 432, 8, 400, 80, 1850 * gb_in_gib},
    {"ND96is_H200_v5", 8, "H200", 141, 989.4, 432, 0, 0, 80, 1850 * gb_in_gib},
    {"ND128isr_NDR_GB200_v6", 4, "GB200", 192, 2500, 460, 4, 400, 160, 900},
    {"ND128isr_GB300_v6", 4, "GB300", 288, 2500, 460, 4, 800, 160, 864},
    {"ND96isr_MI300X_v5", 8, "MI300X", 192, 1307.4, 314, 8, 400, 80, 1850 * gb_in_gib},
    {"NC4as_T4_v3", 1, "T4", 16, 65, 10, 0, 0, 8, 28},
    {"NC64as_T4_v3", 4, "T4", 16, 65, 10, 0, 0, 32, 440},
    {"NC24ads_A100_v4", 1, "A100", 80, 312, 21, 0, 0, 20, 220},
    {"NC48ads_A100_v4", 2, "A100", 80, 312, 193, 0, 0, 40, 440},
    {"NC96ads_A100_v4", 4, "A100", 80, 312, 25, 0, 0, 80, 880},
    {"NC40ads_H100_v5", 1, "H100 NVL", 94, 835.5, 48, 0, 0, 40, 320},
    {"NC80adis_H100_v5", 2, "H100 NVL", 94, 835.5, 208, 0, 0, 80, 640},
    {"HC44rs", 0, "", 0, 0, 0, 1, 100, 0, 354691 * mb_in_gib},
    {"HB120rs_v2", 0, "", 0, 0, 0, 1, 200, 0, 470543164 * kb_in_gib},
    {"HB120rs_v3", 0, "", 0, 0, 0, 1, 200, 0, 470543164 * kb_in_gib},
    {"HB176rs_v4", 0, "", 0, 0, 0, 1, 400, 0, 792561408 * kb_in_gib},
    {"HX176rs", 0, "", 0, 0, 0, 1, 400, 0, 1444918756 * kb_in_gib},
    {"HBv5", 0, "", 0, 0, 0, 4, 200, 0, 432 * gb_in_gib},
};

StageEstimate estimate_stage(const EstimateQuestion& question, ZeroStage stage, bool recomputes) {
  TrainOptions options = question.options;
  options.zero = stage;
  options.model.recompute = recomputes;
  StageEstimate estimate{stage, recomputes, rank_memory(options, question.layout), {}};
  if (question.limit) {
    estimate.fits = fits(estimate.memory, *question.limit, question.layout.kind);
  }
  return estimate;
}

constexpr std::size_t gpt2_vocabulary = 50304;      // 50257, padded to a multiple of 128
constexpr std::size_t megatron_vocabulary = 51200;  // the same text, padded for tensor parallelism

struct NamedShape {
  std::string_view name;
  std::size_t layers, width, heads, vocabulary;
};

// GPT-2: Radford et al. 2019, as its published weights are. GPT-3 XL and 175B: arXiv 2005.14165,
// table 2.1. 530B: arXiv 2201.11990. 1T: arXiv 2104.04473, table 1. 2T: the shape for which 157
// TFLOP/s per A100 were published with ZeRO-3 (DeepSpeed on Azure, 2022): 160 layers of 32768.
constexpr NamedShape shapes[] = {
    {"gpt2-124m", 12, 768, 12, gpt2_vocabulary},    {"gpt2-350m", 24, 1024, 16, gpt2_vocabulary},
    {"gpt2-774m", 36, 1280, 20, gpt2_vocabulary},   {"gpt2-1558m", 48, 1600, 25, gpt2_vocabulary},
    {"gpt3-xl", 24, 2048, 16, gpt2_vocabulary},     {"175b", 96, 12288, 96, megatron_vocabulary},
    {"530b", 105, 20480, 128, megatron_vocabulary}, {"1t", 128, 25600, 160, megatron_vocabulary},
    {"2t", 160, 32768, 128, megatron_vocabulary},
};

std::string in_gib(std::uint64_t bytes) {
  const double number = static_cast<double>(bytes) / gib;
  return printed(number < 10 ? "%.3f" : "%.1f", number);
}

int number_of(ZeroStage stage) {
  return static_cast<int>(stage);
}

std::uint64_t nodes_of(const RankLayout& layout) {
  return (layout.ranks + layout.ranks_per_node - 1) / layout.ranks_per_node;
}

std::string heading(const EstimateQuestion& question) {
  const GptShape& shape = question.options.shape;
  std::string text = question.model.empty() ? "model" : question.model;
  text += printed(": %zu layers of %zu, %zu heads, context %zu, vocabulary %zu: %.4g parameters\n",
                  shape.layers, shape.width, shape.heads, shape.context, shape.vocabulary,
                  static_cast<double>(parameter_count(shape)));
  const RankLayout& layout = question.layout;
  const std::string where = question.sku
                                ? " " + std::string(question.sku->name)
                                : std::string(nodes_of(layout) == 1 ? " machine" : " machines");
  const bool is_gpu = layout.kind == RankKind::gpu;
  const bool rounds = is_gpu || question.options.model.precision == Precision::bf16;
  const BatchPlan plan = make_batch_plan(question.options, layout.ranks);
  text += printed(
      "%zu ranks on %llu%s, %llu sequences per forward pass, %llu per step, at most %llu of them "
      "on a rank, %s\n",
      layout.ranks, static_cast<unsigned long long>(nodes_of(layout)), where.c_str(),
      static_cast<unsigned long long>(plan.micro_batch),
      static_cast<unsigned long long>(plan.batch),
      static_cast<unsigned long long>(plan.most_sequences(layout.ranks)), rounds ? "bf16" : "fp32");
  for (const std::string& remark : sharing_remarks(question.options, layout.ranks)) {
    text += remark + "\n";
  }
  if (is_gpu) text += "(of GPUs in general: this muster-train computes with processors)\n";
  return text;
}

std::string stage_name(const StageEstimate& row) {
  return std::to_string(number_of(row.stage)) + (row.recomputes ? " recomputed" : "");
}

std::string stage_table(const Estimate& estimate) {
  const bool is_gpu = estimate.question.layout.kind == RankKind::gpu;
  std::vector<std::vector<std::string>> rows{{"ZERO", "WEIGHTS", "GRADIENTS", "OPTIMIZER",
                                              "ACTIVATIONS", "BUFFERS", "PROGRAM",
                                              is_gpu ? "HOST SNAPSHOT" : "SNAPSHOT", "TOTAL"}};
  if (estimate.question.limit) rows[0].push_back("FITS");
  for (const StageEstimate& stage : estimate.stages) {
    const RankMemory& memory = stage.memory;
    rows.push_back({stage_name(stage), in_gib(memory.weights), in_gib(memory.gradients),
                    in_gib(memory.optimizer), in_gib(memory.activations), in_gib(memory.buffers),
                    in_gib(memory.program), in_gib(memory.snapshot),
                    in_gib(device_bytes(memory, estimate.question.layout.kind))});
    if (estimate.question.limit && stage.fits) rows.back().push_back(*stage.fits ? "yes" : "no");
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - row[i].size(), ' ');
      const bool is_first = i == 0;
      text += is_first ? row[i] + fill : "  " + fill + row[i];
    }
    text += "\n";
  }
  return text;
}

std::string verdict(const Estimate& estimate) {
  const EstimateQuestion& question = estimate.question;
  if (!question.limit) return "";
  const std::uint64_t needed = device_bytes(estimate.asked.memory, question.layout.kind);
  std::string text = "--zero " + stage_name(estimate.asked) + ": " + in_gib(needed) + " GiB of " +
                     in_gib(question.limit->device) +
                     " GiB: " + (*estimate.asked.fits ? "fits\n" : "does not fit\n");
  const bool lacks_host = needed <= question.limit->device && !*estimate.asked.fits;
  if (lacks_host) {
    text += "the snapshot of a checkpoint takes " + in_gib(estimate.asked.memory.snapshot) +
            " GiB of " + in_gib(*question.limit->host) + " GiB of the host\n";
  }
  if (*estimate.asked.fits) return text;
  text += estimate.changes.empty() ? "none of the usual changes makes it fit\n"
                                   : "the cheapest changes that make it fit:\n";
  for (const FittingChange& change : estimate.changes) {
    text += "  " + change.what + ": " + in_gib(device_bytes(change.memory, question.layout.kind)) +
            " GiB" + printed(", %.2f x the time of ranks per token\n", change.cost);
  }
  return text;
}

std::string time_text(const Estimate& estimate) {
  const StepTime& time = estimate.time;
  const RankRates& rates = estimate.question.rates;
  std::string text;
  if (rates.link_bytes_per_s > 0 && estimate.question.layout.ranks > 1) {
    text += printed("communication: %.4g GB per rank and step at %.4g GB/s: %.4g s\n",
                    time.bytes / 1e9, rates.link_bytes_per_s / 1e9, time.communication_s);
  }
  if (rates.peak_flops <= 0) {
    return text + "step time: not known without a peak: give --peak-tflops, or a --sku with GPUs\n";
  }
  const bool recomputes = estimate.question.options.model.recompute;
  text += printed(
      "compute: %.4g TFLOP per rank and step%s at %.0f %% (assumed) of %.4g TFLOP/s: "
      "%.4g s\n",
      time.flops / 1e12, recomputes ? ", recomputation included," : "", rates.share_of_peak * 100,
      rates.peak_flops / 1e12, time.compute_s);
  const auto n = static_cast<double>(estimate.question.layout.ranks);
  const FlopsPerToken flops = flops_per_token(estimate.question.options.shape);
  const auto line = [&](const char* how, double seconds) {
    const double rate = time.tokens / seconds;
    const Utilisation use = utilisation_of(flops, rate, rates.peak_flops * n, recomputes);
    text += printed(
        "step, %s: %.4g s, %.4g tok/s, %.4g TFLOP/s per rank, MFU %.1f %% (A) %.1f %% "
        "(B)",
        how, seconds, rate, time.flops / seconds / 1e12, use.mfu_a * 100, use.mfu_b * 100);
    text += use.hfu ? printed(", HFU %.1f %%\n", *use.hfu * 100) : "\n";
  };
  line("communication hidden", time.hidden_s());
  line("nothing hidden", time.exposed_s());
  return text;
}

nlohmann::ordered_json memory_json(const StageEstimate& stage, RankKind kind) {
  nlohmann::ordered_json json;
  json["zero"] = number_of(stage.stage);
  json["recompute"] = stage.recomputes;
  RankMemory::fields(stage.memory, [&](const std::string& name, std::uint64_t bytes) {
    json[name + "_bytes"] = bytes;
  });
  json["total_bytes"] = device_bytes(stage.memory, kind);
  json["fits"] = stage.fits ? nlohmann::ordered_json(*stage.fits) : nullptr;
  return json;
}

nlohmann::ordered_json time_json(const Estimate& estimate) {
  const StepTime& time = estimate.time;
  nlohmann::ordered_json json;
  json["tokens"] = time.tokens;
  json["flops_per_rank"] = time.flops;
  json["sent_bytes_per_rank"] = time.bytes;
  json["assumed_share_of_peak"] = estimate.question.rates.share_of_peak;
  json["peak_flops_per_rank"] = estimate.question.rates.peak_flops;
  json["link_bytes_per_s"] = estimate.question.rates.link_bytes_per_s;
  json["compute_s"] = time.compute_s;
  json["communication_s"] = time.communication_s;
  json["hidden_s"] = time.hidden_s();
  json["exposed_s"] = time.exposed_s();
  if (time.compute_s > 0) {
    json["tflops_per_rank_hidden"] = time.flops / time.hidden_s() / 1e12;
    json["tflops_per_rank_exposed"] = time.flops / time.exposed_s() / 1e12;
  }
  return json;
}

constexpr int exit_does_not_fit = 1;
constexpr std::size_t most_ranks = 1 << 20;

struct Answers {
  TrainOptions options;
  std::string model, sku, device = "auto", output = "table";
  std::size_t ranks = 1, ranks_per_node = 0;
  double memory_gib = 0, utilisation = 0.5;
};

// A command of a training run may be given whole; help names what an estimate depends on.
void hide_the_rest(CLI::App& app) {
  const std::set<std::string> shown{"--layers",
                                    "--width",
                                    "--heads",
                                    "--context",
                                    "--vocabulary",
                                    "--untied",
                                    "--precision",
                                    "--recompute",
                                    "--batch",
                                    "--micro-batch",
                                    "--accumulation-chunks",
                                    "--deterministic",
                                    "--threads",
                                    "--zero",
                                    "--bucket-bytes",
                                    "--bucket-limit-bytes",
                                    "--peak-tflops",
                                    "--help",
                                    "--checkpoint-mode"};
  for (CLI::Option* option : app.get_options()) {
    if (!shown.contains(option->get_name())) option->group("");
  }
}

void add_options(CLI::App& app, Answers& of) {
  add_run_options(app, of.options);
  hide_the_rest(app);
  app.add_option("--model", of.model, "a shape by name: " + names_of_shapes());
  app.add_option("--ranks", of.ranks, "all of them")
      ->check(CLI::Range(std::size_t{1}, most_ranks))
      ->capture_default_str();
  app.add_option("--ranks-per-node", of.ranks_per_node,
                 "on one machine (default: one per GPU of the --sku, otherwise all)")
      ->check(CLI::Range(std::size_t{1}, most_ranks));
  app.add_option("--sku", of.sku, "machines: " + names_of_skus());
  app.add_option("--memory-gib", of.memory_gib, "that one rank may take (default: by the --sku)")
      ->check(CLI::PositiveNumber);
  app.add_option("--device", of.device, "cpu, gpu, or auto: by the --sku, otherwise cpu")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}))
      ->capture_default_str();
  app.add_option("--utilisation", of.utilisation,
                 "share of its peak at which a rank computes: 0.5 to 0.66 were published for the "
                 "shapes from 175b to 2t on A100")
      ->check(CLI::Range(0.001, 1.0))
      ->capture_default_str();
  app.add_option("--output", of.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
}

void take_shape(const CLI::App& app, Answers& of) {
  GptShape& shape = of.options.shape;
  if (!of.model.empty()) {
    const auto named = named_shape(of.model);
    if (!named) {
      throw StartError("--model: no model is called " + of.model + ": " + names_of_shapes());
    }
    if (app.count("--layers") == 0) shape.layers = named->layers;
    if (app.count("--width") == 0) shape.width = named->width;
    if (app.count("--heads") == 0) shape.heads = named->heads;
    if (app.count("--context") == 0) shape.context = named->context;
    if (app.count("--vocabulary") == 0) shape.vocabulary = named->vocabulary;
  }
  if (shape.vocabulary == 0) shape.vocabulary = 256;  // of text
}

// Without a batch one micro-batch a rank, or as muster-train has it.
void take_batch(const CLI::App& app, Answers& of) {
  TrainOptions& options = of.options;
  if (app.count("--batch") > 0) return;
  if (options.micro_batch > 0) options.batch = options.micro_batch * of.ranks;
  options.batch = std::max<std::uint64_t>(options.batch, of.ranks);
}

std::optional<MemoryLimit> limit_of(const Answers& of, const EstimateQuestion& question) {
  const auto bytes = [](double amount) { return static_cast<std::uint64_t>(amount * gib); };
  if (of.memory_gib > 0) return MemoryLimit{bytes(of.memory_gib), {}};
  if (!question.sku) return std::nullopt;
  const double host =
      question.sku->memory_gib / static_cast<double>(question.layout.ranks_per_node);
  if (question.layout.kind == RankKind::processor) return MemoryLimit{bytes(host), {}};
  return MemoryLimit{bytes(question.sku->gpu_memory_gib), bytes(host)};
}

EstimateQuestion question_of(const CLI::App& app, Answers of) {
  EstimateQuestion question;
  if (!of.sku.empty()) {
    question.sku = find_sku(of.sku);
    if (!question.sku) {
      throw StartError("--sku: no size is called " + of.sku + ": " + names_of_skus());
    }
  }
  const unsigned gpus = question.sku ? question.sku->gpus : 0;
  const bool is_gpu = of.device == "gpu" || (of.device == "auto" && gpus > 0);
  if (is_gpu && question.sku && gpus == 0) {
    throw StartError("--device gpu: " + std::string(question.sku->name) + " has none");
  }
  RankLayout& layout = question.layout;
  layout.kind = is_gpu ? RankKind::gpu : RankKind::processor;
  layout.ranks = of.ranks;
  layout.ranks_per_node = of.ranks_per_node > 0 ? of.ranks_per_node : gpus > 0 ? gpus : of.ranks;
  take_shape(app, of);
  take_batch(app, of);
  question.model = of.model;
  question.options = of.options;
  question.limit = limit_of(of, question);
  RankRates& rates = question.rates;
  rates.share_of_peak = of.utilisation;
  if (is_gpu && question.sku) rates.peak_flops = question.sku->gpu_peak_tflops * 1e12;
  if (of.options.peak_tflops) rates.peak_flops = *of.options.peak_tflops * 1e12;
  if (question.sku) {
    rates.link_bytes_per_s = link_bytes_per_s(*question.sku, layout.ranks > layout.ranks_per_node);
  }
  return question;
}

}  // namespace

std::optional<SkuFacts> find_sku(std::string_view name) {
  constexpr std::string_view vendor_prefix = "standard_";
  std::string wanted = lower_case(name);
  if (wanted.starts_with(vendor_prefix)) wanted.erase(0, vendor_prefix.size());
  const auto found =
      std::ranges::find(skus, wanted, [](const SkuFacts& sku) { return lower_case(sku.name); });
  return found == std::end(skus) ? std::nullopt : std::optional(*found);
}

std::string names_of_skus() {
  return joined(skus | std::views::transform(&SkuFacts::name));
}

// The rings of an all-reduce cross between two machines once each, over all cards together, so the
// cards of a machine carry what one rank sends.
double link_bytes_per_s(const SkuFacts& sku, bool between_machines) {
  const double inside = sku.gpu_link_gbyte_s * 1e9;
  if (!between_machines && inside > 0) return inside;
  const double cards =
      sku.infiniband_nics > 0 ? sku.infiniband_nics * sku.infiniband_gbit_s : sku.ethernet_gbit_s;
  const double outside = cards * share_of_cards * 1e9 / 8;
  return inside > 0 ? std::min(inside, outside) : outside;
}

Estimate make_estimate(const EstimateQuestion& question) {
  Estimate estimate;
  estimate.question = question;
  for (const bool recomputes : {false, true}) {
    for (const ZeroStage stage :
         {ZeroStage::nothing, ZeroStage::moments, ZeroStage::gradients, ZeroStage::weights}) {
      estimate.stages.push_back(estimate_stage(question, stage, recomputes));
    }
  }
  const TrainOptions& options = question.options;
  estimate.asked = estimate_stage(question, options.zero, options.model.recompute);
  if (estimate.asked.fits == false) {
    estimate.changes = cheapest_changes(options, question.layout, *question.limit, question.rates);
  }
  estimate.time = step_time(options, question.layout, question.rates);
  return estimate;
}

std::optional<GptShape> named_shape(std::string_view name) {
  for (const NamedShape& shape : shapes) {
    if (lower_case(shape.name) != lower_case(name)) continue;
    return GptShape{.layers = shape.layers,
                    .width = shape.width,
                    .heads = shape.heads,
                    .context = 1024,
                    .vocabulary = shape.vocabulary};
  }
  return std::nullopt;
}

std::string names_of_shapes() {
  return joined(shapes | std::views::transform(&NamedShape::name));
}

std::string estimate_text(const Estimate& estimate) {
  return heading(estimate.question) + "\nmemory per rank, GiB\n" + stage_table(estimate) + "\n" +
         verdict(estimate) + time_text(estimate);
}

std::string estimate_json(const Estimate& estimate) {
  const EstimateQuestion& question = estimate.question;
  const GptShape& shape = question.options.shape;
  nlohmann::ordered_json json;
  json["model"] = {{"name", question.model},
                   {"layers", shape.layers},
                   {"width", shape.width},
                   {"heads", shape.heads},
                   {"context", shape.context},
                   {"vocabulary", shape.vocabulary},
                   {"parameters", parameter_count(shape)}};
  json["ranks"] = question.layout.ranks;
  json["ranks_per_node"] = question.layout.ranks_per_node;
  json["device"] = question.layout.kind == RankKind::gpu ? "gpu" : "cpu";
  json["sku"] = question.sku ? nlohmann::ordered_json(question.sku->name) : nullptr;
  const BatchPlan plan = make_batch_plan(question.options, question.layout.ranks);
  json["batch"] = plan.batch;
  json["micro_batch"] = plan.micro_batch;
  json["most_sequences_per_rank"] = plan.most_sequences(question.layout.ranks);
  json["remarks"] = sharing_remarks(question.options, question.layout.ranks);
  json["limit_bytes"] = question.limit ? nlohmann::ordered_json(question.limit->device) : nullptr;
  for (const StageEstimate& stage : estimate.stages) {
    json["stages"].push_back(memory_json(stage, question.layout.kind));
  }
  json["asked"] = memory_json(estimate.asked, question.layout.kind);
  json["changes"] = nlohmann::ordered_json::array();
  for (const FittingChange& change : estimate.changes) {
    json["changes"].push_back({{"what", change.what},
                               {"total_bytes", device_bytes(change.memory, question.layout.kind)},
                               {"cost", change.cost}});
  }
  json["step"] = time_json(estimate);
  return json.dump(2) + "\n";
}

std::variant<EstimateRequest, int> parse_estimate(int argc, const char* const* argv) {
  Answers answers;
  CLI::App app(
      "Says what a run would take, before it is started: memory per rank in every stage of --zero, "
      "whether it fits, and how long a step takes. Takes the options of a run.",
      "muster-train estimate");
  add_options(app, answers);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_cannot_start;
  }
  return EstimateRequest{question_of(app, answers), answers.output == "json"};
}

int run_estimate_command(int argc, const char* const* argv) {
  try {
    const auto parsed = parse_estimate(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    const auto& request = std::get<EstimateRequest>(parsed);
    const Estimate estimate = make_estimate(request.question);
    std::fputs((request.as_json ? estimate_json(estimate) : estimate_text(estimate)).c_str(),
               stdout);
    return estimate.asked.fits == false ? exit_does_not_fit : 0;
  } catch (const StartError& error) {
    std::fprintf(stderr, "muster-train: %s\n", error.what());
    return exit_cannot_start;
  }
}

}  // namespace muster
