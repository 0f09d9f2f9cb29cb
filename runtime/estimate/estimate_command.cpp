#include "runtime/estimate/estimate_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>

#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

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
