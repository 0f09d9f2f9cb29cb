#include "health/fabric/tools.h"

#include "health/read/tool_process.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// 100,000 ports, at 300 bytes each.
constexpr std::size_t fabric_output_max = 32u << 20;
constexpr int runs_most = 2;
constexpr std::size_t said_most = 200;

std::string first_line(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), said_most));
}

ToolRun run_tool(std::vector<std::string> argv, const FabricToolOptions& options) {
  const auto until = Clock::now() + options.deadline;
  const std::string name = argv.front();
  ToolRun run = ToolProcess(argv, fabric_output_max).wait(until);
  for (const std::string& place : options.places) {
    if (run.is_found) break;
    argv.front() = place + name;
    run = ToolProcess(argv, fabric_output_max).wait(until);
  }
  return run;
}

// That ibqueryerrors and sminfo end with something else than 0 is an answer.
bool may_fail(FabricTool tool) {
  return tool == FabricTool::errors || tool == FabricTool::manager;
}

bool is_whole(FabricTool tool, const ToolRun& run) {
  if (!run.exit_code) return false;
  if (tool == FabricTool::errors) {
    return run.output.find("## Summary") != std::string::npos &&
           run.errors.find("query failed on ") == std::string::npos;
  }
  return *run.exit_code == 0 || may_fail(tool);
}

FileReading reading_of(FabricTool tool, const std::string& name, const ToolRun& run,
                       const FabricToolOptions& options) {
  if (!run.is_found)
    return {"", name + " is not installed; Debian has it in the package infiniband-diags", true};
  const std::string said = run.errors.empty() ? "" : ": " + first_line(run.errors);
  const std::string limit = std::to_string(options.deadline.count());
  if (!run.exit_code)
    return {"", name + " gave no answer within " + limit + " ms, twice" + said, false};
  if (run.is_cut) return {"", name + " said more than can be read", false};
  const bool is_answer = *run.exit_code == 0 || may_fail(tool);
  const bool is_silent = run.output.empty() && tool == FabricTool::errors;
  if (!is_answer || is_silent)
    return {"", name + " ended with " + std::to_string(*run.exit_code) + said, false};
  return {run.output + run.errors, "", false};
}

}  // namespace

std::vector<std::string> fabric_tool_argv(FabricTool tool, const FabricToolOptions& options) {
  static const std::vector<std::string> usual[] = {
      {"ibnetdiscover", "-p"}, {"iblinkinfo", "-l"}, {"ibqueryerrors", "--data"}, {"sminfo"}};
  std::vector<std::string> argv = usual[static_cast<std::size_t>(tool)];
  if (options.port) {
    argv.insert(argv.end(), {"-C", options.port->device, "-P", std::to_string(options.port->port)});
  }
  return argv;
}

FabricToolAnswer ask_fabric_tool(FabricTool tool, const FabricToolOptions& options) {
  const std::vector<std::string> argv = fabric_tool_argv(tool, options);
  const auto began = Clock::now();
  ToolRun run;
  for (int i = 0; i < runs_most; ++i) {
    run = run_tool(argv, options);
    if (!run.is_found || is_whole(tool, run)) break;
  }
  return {reading_of(tool, argv.front(), run, options),
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began)};
}

}  // namespace muster
