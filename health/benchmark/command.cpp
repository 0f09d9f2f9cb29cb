#include "health/benchmark/command.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "health/benchmark/plan.h"
#include "health/benchmark/tools/tools.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr int wrong_use = 2;

using std::chrono::seconds;

// Empty, or what is wrong with the words.
using Verb = std::string (*)(const ProbeWords& words);

// To begin and to end, beside the time itself: processors may be busy.
constexpr seconds stress_margin{20};

ToolRun run_tool(const std::vector<std::string>& argv, seconds limit) {
  return ToolProcess(argv).wait(std::chrono::steady_clock::now() + limit);
}

std::optional<seconds> time_in(const ProbeWords& words, int usual) {
  const auto time = words.number("--seconds", usual, 1, verify_minutes_max * 60);
  return time ? std::optional(seconds(*time)) : std::nullopt;
}

std::optional<std::uint16_t> port_in(const ProbeWords& words, int usual) {
  // Those after it are used too.
  const auto port = words.number("--port", usual, 1, 65'000);
  return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
}

template <StressKind kind, int usual_seconds>
std::string stress(const ProbeWords& words) {
  const auto time = time_in(words, usual_seconds);
  if (!time || !words.names().empty()) return "cpu, memory or cpu-sdc [--seconds N]";
  const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const StressCall call{kind, processors, *time};
  print_samples(stress_ng_samples(call, run_tool(stress_ng_argv(call), *time + stress_margin)));
  return {};
}

std::string probe_disk(const ProbeWords& words) {
  const auto time = time_in(words, 20);
  const auto mib = words.number("--mib", 4096, 4, 1 << 20);
  if (!time || !mib || words.names().size() != 1) return "disk DIRECTORY [--seconds N] [--mib N]";
  print_samples(
      disk_samples({words.names().front(), static_cast<std::uint64_t>(*mib) << 20, *time}));
  return {};
}

std::string probe_diagnostics(const ProbeWords& words) {
  const auto level = words.number("--level", 1, 1, dcgm_level_max);
  if (!level || !words.names().empty()) return "dcgm [--level 1…4] [--seconds N]";
  const auto usual = dcgm_level(static_cast<int>(*level)).limit;
  const auto limit = words.number("--seconds", usual.count(), 1, 4 * 3600);
  if (!limit) return "dcgm [--level 1…4] [--seconds N]";
  print_samples(run_dcgm(static_cast<int>(*level), seconds(*limit)));
  return {};
}

std::string probe_tcp_server(const ProbeWords& words) {
  const auto wait = time_in(words, 60);
  const auto port = port_in(words, 0);
  if (!wait || !port || *port == 0 || !words.names().empty())
    return "tcp-serve --port N [--seconds N] [--address A]";
  IperfCall call;
  call.address = words.text("--address");
  call.port = *port;
  serve_tcp(call, *wait);
  return {};
}

std::string probe_tcp_client(const ProbeWords& words) {
  const auto time = time_in(words, 10);
  const auto port = port_in(words, 0);
  const auto streams = words.number("--streams", 8, 1, tcp_streams_max);
  // Of a host that is an option to the tool nothing good comes.
  if (!time || *time > seconds(120) || !port || *port == 0 || !streams ||
      words.names().size() != 1 || words.names().front().starts_with('-'))
    return "tcp-connect HOST --port N [--seconds N] [--streams N]";
  IperfCall call;
  call.server = words.names().front();
  call.port = *port;
  call.streams = static_cast<int>(*streams);
  call.time = std::max(seconds(1), *time * 2 / 5);  // each way; the rest is for meeting
  connect_tcp(call);
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

// By which the tool has hung, before whoever planned it thinks so.
seconds hung_after(std::string_view name) {
  const ProbeSpec* spec = find_probe(name);
  return spec->time + spec->limit - seconds(5);
}

template <CopyKind kind>
std::string probe_copies(const ProbeWords& words) {
  if (!words.names().empty()) return "gpu-host, gpu-memory or gpu-peer";
  print_samples(
      nvbandwidth_samples(kind, run_tool(nvbandwidth_argv(kind), hung_after("gpu-host"))));
  return {};
}

template <bool over_infiniband>
std::string probe_all_reduce(const ProbeWords& words) {
  const auto gpus = words.number("--gpus", 8, 1, 64);
  if (!gpus || !words.names().empty()) return "gpu-nccl or gpu-nccl-loop [--gpus N]";
  const AllReduceCall call{static_cast<int>(*gpus), over_infiniband};
  print_samples(nccl_tests_samples(call, run_tool(nccl_tests_argv(call), hung_after("gpu-nccl"))));
  return {};
}

struct NamedVerb {
  std::string_view name;
  Verb verb;
  std::vector<std::string_view> options;
};

const std::vector<NamedVerb>& verbs() {
  static const std::vector<NamedVerb> all{
      {"cpu", stress<StressKind::matrix, 5>, {"--seconds"}},
      {"memory", stress<StressKind::stream, 5>, {"--seconds"}},
      {"cpu-sdc", stress<StressKind::verify, 20>, {"--seconds"}},
      {"disk", probe_disk, {"--seconds", "--mib"}},
      {"dcgm", probe_diagnostics, {"--level", "--seconds"}},
      {"tcp-serve", probe_tcp_server, {"--seconds", "--port", "--address"}},
      {"tcp-connect", probe_tcp_client, {"--seconds", "--port", "--streams"}},
      {"ib-loop", loop_infiniband, {"--seconds", "--gpus", "--port"}},
      {"ib-pair-serve", serve_infiniband, {"--seconds", "--port"}},
      {"ib-pair-connect", connect_infiniband, {"--seconds", "--port"}},
      {"gpu-host", probe_copies<CopyKind::host>, {}},
      {"gpu-memory", probe_copies<CopyKind::memory>, {}},
      {"gpu-peer", probe_copies<CopyKind::peer>, {}},
      {"gpu-nccl", probe_all_reduce<false>, {"--gpus"}},
      {"gpu-nccl-loop", probe_all_reduce<true>, {"--gpus"}}};
  return all;
}

int complain(const std::string& sentence) {
  std::fprintf(stderr, "muster: probe: %s\n", sentence.c_str());
  return wrong_use;
}

}  // namespace

int run_probe(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "" : words.front();
  const auto named = std::ranges::find(verbs(), name, &NamedVerb::name);
  if (named == verbs().end()) return complain("there is no benchmark '" + name + "'");
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
  const auto value = read_integer(found->second);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

}  // namespace muster
