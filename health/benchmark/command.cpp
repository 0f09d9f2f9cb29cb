#include "health/benchmark/command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "health/active/burn_probe.h"
#include "health/active/gpu_program.h"
#include "health/active/memory_probe.h"
#include "health/active/probe_door.h"
#include "health/active/processor_products.h"
#include "health/active/timed_passes.h"
#include "health/benchmark/plan.h"
#include "health/benchmark/tools/dcgm.h"
#include "health/benchmark/tools/fio.h"
#include "health/benchmark/tools/infiniband.h"
#include "health/benchmark/tools/iperf.h"
#include "health/benchmark/tools/sample_line.h"
#include "health/benchmark/tools/stress_ng.h"

namespace muster {

namespace {

constexpr int wrong_use = 2;

using std::chrono::seconds;

// Empty, or what is wrong with the words.
using Verb = std::string (*)(const ProbeWords& words);

std::optional<seconds> time_in(const ProbeWords& words, int usual) {
  const auto time = words.number("--seconds", usual, 1, 3600);
  return time ? std::optional(seconds(*time)) : std::nullopt;
}

std::optional<std::uint16_t> port_in(const ProbeWords& words, int usual) {
  // Those after it are used too.
  const auto port = words.number("--port", usual, 1, 65'000);
  return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
}

void print_result(const char* metric, const Result<double>& result) {
  if (result) return print_probe_value(metric, "", *result);
  print_probe_error(metric, "", result.error().message);
}

std::string probe_cpu(const ProbeWords& words) {
  const auto time = time_in(words, 5);
  if (!time || !words.names().empty()) return "cpu [--seconds N]";
  print_result("cpu_gemm_gflops", matrix_gflops({*time, usable_processors()}));
  return {};
}

std::string probe_processor_products(const ProbeWords& words) {
  const auto time = time_in(words, 20);
  if (!time || !words.names().empty()) return "cpu-sdc [--seconds N]";
  const auto computed = compute_products({*time, online_processors()});
  if (computed) {
    print_sample(judge_processor_products(*computed));
  } else {
    print_probe_error(processor_corruption_metric, processors_device, computed.error().message);
  }
  return {};
}

std::string probe_full_load(const ProbeWords& words) {
  const auto time = words.number("--seconds", burn_minutes_usual * 60, 1, burn_minutes_max * 60);
  const auto gpus = words.number("--gpus", 0, 0, 64);
  if (!time || !gpus || !words.names().empty())
    return "burn [--seconds N] [--gpus N] [--root DIRECTORY]";
  BurnOptions options;
  options.time = seconds(*time);
  options.gpus = static_cast<int>(*gpus);
  if (!words.text("--root").empty()) options.root = words.text("--root");
  options.processors = online_processors();
  probe_burn(options);
  return {};
}

std::string probe_memory(const ProbeWords& words) {
  const auto time = time_in(words, 5);
  const auto array_mib = words.number("--array-mib", 0, 1, 1 << 20);
  if (!time || !array_mib || !words.names().empty()) return "memory [--seconds N] [--array-mib N]";
  MemoryProbeOptions options{*time, std::nullopt, usable_processors()};
  if (*array_mib > 0) options.array_bytes = static_cast<std::uint64_t>(*array_mib) << 20;
  print_result("stream_mb_per_s", triad_mb_per_s(options));
  return {};
}

std::string probe_disk(const ProbeWords& words) {
  const auto time = time_in(words, 20);
  const auto mib = words.number("--mib", 4096, 4, 1 << 20);
  if (!time || !mib || words.names().size() != 1) return "disk DIRECTORY [--seconds N] [--mib N]";
  const auto rates =
      disk_rates({words.names().front(), static_cast<std::uint64_t>(*mib) << 20, *time});
  if (rates) {
    print_probe_value("fio_write_mb_per_s", "", rates->write_mb_per_s);
    print_probe_value("fio_read_mb_per_s", "", rates->read_mb_per_s);
  } else {
    print_probe_error("fio_write_mb_per_s", "", rates.error().message);
    print_probe_error("fio_read_mb_per_s", "", rates.error().message);
  }
  return {};
}

std::string probe_diagnostics(const ProbeWords& words) {
  const auto level = words.number("--level", 1, 1, dcgm_level_max);
  const auto limit = words.number("--seconds", 0, 1, 4 * 3600);
  if (!level || !limit || !words.names().empty()) return "dcgm [--level 1…4] [--seconds N]";
  probe_dcgm({static_cast<int>(*level), seconds(*limit)});
  return {};
}

std::string no_token() {
  return std::string("it with 8 to 128 characters in the variable ") + probe_token_variable;
}

std::string own_token() {
  const char* token = std::getenv(probe_token_variable);
  return token != nullptr && is_probe_token(token) ? token : "";
}

void print_figures(const Result<TcpFigures>& figures) {
  if (figures) {
    print_probe_value("tcp_gbps", "", figures->gbps);
    print_probe_value("tcp_latency_us", "", figures->round_trip_us);
    print_probe_value(probe_waited_word, "", figures->waited_pct);
  } else {
    print_probe_error("tcp_gbps", "", figures.error().message);
    print_probe_error("tcp_latency_us", "", figures.error().message);
  }
}

std::string serve_tcp(const ProbeWords& words) {
  const auto wait = time_in(words, 60);
  const auto port = port_in(words, 0);
  if (!wait || !port || *port == 0 || !words.names().empty())
    return "tcp-serve --port N [--seconds N] [--address A]";
  TcpServeOptions options;
  options.address = words.text("--address");
  options.port = *port;
  options.token = own_token();
  options.wait = *wait;
  if (options.token.empty()) return no_token();
  print_figures(serve_tcp_probe(options));
  return {};
}

std::string connect_tcp(const ProbeWords& words) {
  const auto time = time_in(words, 10);
  const auto port = port_in(words, 0);
  const auto streams = words.number("--streams", 8, 1, tcp_streams_max);
  if (!time || *time > seconds(120) || !port || *port == 0 || !streams || words.names().size() != 1)
    return "tcp-connect HOST --port N [--seconds N] [--streams N]";
  TcpConnectOptions options;
  options.host = words.names().front();
  options.port = *port;
  options.token = own_token();
  options.streams = static_cast<std::size_t>(*streams);
  options.time = std::chrono::milliseconds(*time) * 2 / 5;  // each way; the rest is for meeting
  if (options.token.empty()) return no_token();
  print_figures(connect_tcp_probe(options));
  return {};
}

std::optional<InfinibandProbeOptions> infiniband_options(const ProbeWords& words,
                                                         std::size_t first_hca) {
  InfinibandProbeOptions options;
  const auto time = time_in(words, 5);
  const auto port = port_in(words, options.tcp_port);
  const auto gpus = words.number("--gpus", 0, 0, 64);
  if (!time || !port || !gpus || words.names().size() <= first_hca) return std::nullopt;
  for (std::size_t i = first_hca; i < words.names().size(); ++i) {
    const auto hca = read_hca_port(words.names()[i]);
    if (!hca) return std::nullopt;
    options.ports.push_back(*hca);
  }
  options.time = *time;
  options.tcp_port = *port;
  options.gpus = static_cast<int>(*gpus);
  if (first_hca == 1) options.server = words.names().front();
  // Of a host that is an option to the tool nothing good comes.
  if (options.server.starts_with('-')) return std::nullopt;
  return options;
}

std::string loop_infiniband(const ProbeWords& words) {
  const auto options = infiniband_options(words, 0);
  if (!options || options->ports.size() < 2)
    return "ib-loop HCA HCA… [--seconds N] [--gpus N] [--port N]";
  probe_infiniband_loop(*options);
  return {};
}

std::string serve_infiniband(const ProbeWords& words) {
  const auto options = infiniband_options(words, 0);
  if (!options) return "ib-pair-serve HCA… --port N [--seconds N]";
  serve_infiniband_pair(*options);
  return {};
}

std::string connect_infiniband(const ProbeWords& words) {
  const auto options = infiniband_options(words, 1);
  if (!options) return "ib-pair-connect HOST HCA… --port N [--seconds N]";
  probe_infiniband_pair(*options);
  return {};
}

struct NamedVerb {
  std::string_view name;
  Verb verb;
  std::vector<std::string_view> options;
};

const std::vector<NamedVerb>& verbs() {
  static const std::vector<NamedVerb> all{
      {"cpu", probe_cpu, {"--seconds"}},
      {"cpu-sdc", probe_processor_products, {"--seconds"}},
      {"burn", probe_full_load, {"--seconds", "--gpus", "--root"}},
      {"memory", probe_memory, {"--seconds", "--array-mib"}},
      {"disk", probe_disk, {"--seconds", "--mib"}},
      {"dcgm", probe_diagnostics, {"--level", "--seconds"}},
      {"tcp-serve", serve_tcp, {"--seconds", "--port", "--address"}},
      {"tcp-connect", connect_tcp, {"--seconds", "--port", "--streams"}},
      {"ib-loop", loop_infiniband, {"--seconds", "--gpus", "--port"}},
      {"ib-pair-serve", serve_infiniband, {"--seconds", "--port"}},
      {"ib-pair-connect", connect_infiniband, {"--seconds", "--port"}}};
  return all;
}

// Returns only when there is none.
void become_gpu_program(const std::vector<std::string>& words) {
  const std::string program = gpu_program();
  std::vector<std::string> own{program};
  own.insert(own.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : own) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(program.c_str(), argv.data());
}

// The halves of a pair are words of one probe.
const ProbeSpec* gpu_probe_of(const std::string& word) {
  if (!word.starts_with("gpu-")) return nullptr;
  for (const ProbeSpec& spec : probe_specs()) {
    const std::string name(spec.name);
    const bool is_pair = spec.reach == ProbeReach::pair;
    if (is_pair ? word == name + "-serve" || word == name + "-connect" : word == name) return &spec;
  }
  return nullptr;
}

int probe_gpus(const ProbeSpec& spec, const std::vector<std::string>& words) {
  become_gpu_program(words);
  const std::string why = errno == ENOENT
                              ? no_gpu_program()
                              : std::string(gpu_program_name) + ": " + std::strerror(errno);
  for (const std::string_view metric : spec.metrics) print_probe_absent(metric, "", why);
  return 0;
}

int complain(const std::string& sentence) {
  std::fprintf(stderr, "muster: probe: %s\n", sentence.c_str());
  return wrong_use;
}

}  // namespace

int run_probe(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "" : words.front();
  if (const ProbeSpec* spec = gpu_probe_of(name)) return probe_gpus(*spec, words);
  const auto named = std::ranges::find(verbs(), name, &NamedVerb::name);
  if (named == verbs().end()) return complain("there is no probe '" + name + "'");
  const auto read = ProbeWords::read({words.begin() + 1, words.end()}, named->options);
  if (!read) return complain(read.error().message);
  const std::string wrong = named->verb(*read);
  return wrong.empty() ? 0 : complain("use: " + wrong);
}

Result<ProbeWords> ProbeWords::read(const std::vector<std::string>& words,
                                    const std::vector<std::string_view>& options) {
  ProbeWords read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      read.names_.push_back(words[i]);
      continue;
    }
    if (std::ranges::find(options, words[i]) == options.end())
      return Error{"there is no option " + words[i] + " here"};
    if (i + 1 == words.size()) return Error{words[i] + " needs a value"};
    read.options_[words[i]] = words[i + 1];
    ++i;
  }
  return read;
}

std::string ProbeWords::text(std::string_view option) const {
  const auto found = options_.find(option);
  return found == options_.end() ? std::string() : found->second;
}

std::optional<std::int64_t> ProbeWords::number(std::string_view option, std::int64_t usual,
                                               std::int64_t least, std::int64_t most) const {
  const auto found = options_.find(option);
  if (found == options_.end()) return usual;
  const std::string& word = found->second;
  std::int64_t value = 0;
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && at == word.data() + word.size();
  return is_number && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace muster
