#include "cli/health/cluster/fabric.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/health/cluster/health_fabric_report.h"
#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/health/state.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/host/facts.h"
#include "health/model/check.h"
#include "launcher/os/regular_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr int looks_most = 5;
constexpr std::size_t golden_bytes_max = 64u << 20;
// A rate over less says little; an hour is more than any threshold needs.
constexpr Milliseconds ber_time_min = std::chrono::minutes(1);
constexpr Milliseconds ber_time_max = std::chrono::hours(1);

std::string misfit_of(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const CheckSpec& spec) { return fits_pattern(pattern, spec.id); };
    if (std::ranges::none_of(fabric_checks(), fits)) {
      return "--check: no check of the fabric is called '" + pattern +
             "'; `muster health checks` lists them, as fab.…";
    }
  }
  return {};
}

// Two planes of a host are two fabrics.
std::string state_name(const std::string& hca) {
  return hca.empty() ? "fabric" : "fabric-" + hca;
}

std::optional<std::filesystem::path> state_file(const HealthFabricOptions& options,
                                                const std::string& host) {
  if (options.forget) return std::nullopt;
  if (!options.state.empty()) return options.state;
  return usual_state_file(host, state_name(options.hca));
}

FabricState remembered(const std::optional<std::filesystem::path>& path,
                       const CommonOptions& common) {
  if (!path) return {};
  const auto text = read_state_file(*path);
  if (text && !*text) return {};
  auto state = text ? decode_fabric_state(**text) : Result<FabricState>(text.error());
  if (state) return std::move(*state);
  const std::string where = text ? path->string() + ": " : "";
  notice(where + state.error().message + "; starting with empty state", common);
  return {};
}

// What was kept when all was well, read as the tool's own answer.
Result<std::optional<Fabric>> golden_of(const std::string& file) {
  if (file.empty()) return std::optional<Fabric>();
  auto text = read_input(file, golden_bytes_max);
  if (!text) return text.error();
  Fabric golden = read_ibnetdiscover({std::move(*text), "", false});
  if (golden.nodes.empty()) {
    return Error{file + ": this is not what ibnetdiscover -p says; --save-baseline writes it"};
  }
  return std::optional(std::move(golden));
}

int save_golden(const std::string& file, const FabricToolOptions& tools,
                const CommonOptions& common) {
  const FileReading said = ask_fabric_tool(FabricTool::discover, tools).said;
  const Fabric fabric = read_ibnetdiscover(said);
  if (!said.ok()) return complain(said.error, static_cast<int>(HealthExit::unclear), common);
  if (!fabric.reading.is_whole() || fabric.nodes.empty()) {
    return complain("what ibnetdiscover said is not whole: nothing was saved", internal_error,
                    common);
  }
  const int code = write_new_file(file, said.text, common);
  if (code == 0) {
    notice("wrote " + file + ", " + std::to_string(fabric.nodes.size()) +
               " nodes; next: muster health fabric --baseline " + file,
           common);
  }
  return code;
}

HealthForms forms_of(const FabricResult& result) {
  return {result.look.run.at,
          reports_with_hosts(result),
          [&](const HealthTextForm& form) { return fabric_text(result, form); },
          [&] { return health_lines(result.look); },
          [&] { return fabric_document(result); },
          result.look.first_readings};
}

void keep(const std::optional<std::filesystem::path>& file, const FabricState& state,
          const CommonOptions& common) {
  if (!file) return;
  const auto saved = write_state_file(*file, encode_fabric_state(state));
  if (!saved) notice(saved.error().message + ": state not saved", common);
}

Result<FabricToolOptions> tools_of(const HealthFabricOptions& options) {
  FabricToolOptions tools;
  if (options.deadline) tools.deadline = *options.deadline;
  if (tools.deadline <= Milliseconds{0}) return Error{"--deadline: expected more than 0"};
  if (options.hca.empty()) return tools;
  const auto port = read_hca_port(options.hca);
  if (!port) return Error{"--hca: " + port.error().message};
  tools.port = *port;
  return tools;
}

}  // namespace

int run_health_fabric(const HealthFabricOptions& options, const CommonOptions& common) {
  const std::string misused = misused_query(common);
  if (!misused.empty()) return complain(misused, usage_error, common);
  const std::string misfit = misfit_of(options.checks);
  if (!misfit.empty()) return complain(misfit, usage_error, common);
  const auto tools = tools_of(options);
  if (!tools) return complain(tools.error().message, usage_error, common);
  if (!options.save_golden.empty()) return save_golden(options.save_golden, *tools, common);

  FabricLookOptions wanted;
  if (!options.profile.empty()) {
    auto profile = named_profile(options.profile, common);
    if (!profile) return complain(profile.error().message, invalid_file, common);
    wanted.profile = std::move(*profile);
  }
  auto golden = golden_of(options.golden);
  if (!golden) return complain(golden.error().message, invalid_file, common);
  wanted.golden = std::move(*golden);
  wanted.checks = options.checks;
  wanted.host = read_host_name();
  wanted.ask = [&](FabricTool tool) { return ask_fabric_tool(tool, *tools); };
  wanted.now = wall_clock_now;
  const auto file = state_file(options, wanted.host);
  FabricLook look(std::move(wanted), remembered(file, common));
  look.look();
  while (!options.quick && look.looks() < looks_most && look.is_open()) {
    std::this_thread::sleep_for(fast_sampling);
    look.look();
  }
  const FabricResult result = look.result();
  keep(file, look.state(), common);
  const HealthForms forms = forms_of(result);
  const int written = write_prometheus_file(options.prometheus_file, forms, common);
  const int code = tell_health(forms, fabric_exit(result), options.all, common);
  return written != 0 ? written : code;
}

}  // namespace muster
