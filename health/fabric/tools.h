// Runs the tools of infiniband-diags on this host, each as a child that is killed at its deadline:
// one that waits for a management packet may wait for ever. Blocks; for processes of one thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "health/benchmark/tools/tools.h"
#include "health/model/source_files.h"

namespace muster {

enum class FabricTool { discover, links, errors, manager };

struct FabricToolOptions {
  std::optional<HcaPort> port;  // of this host, by which they look; nothing: the first active one
  std::chrono::milliseconds deadline{60'000};  // of one run
  // Where a tool is looked for after PATH: users do not have it there.
  std::vector<std::string> places{"/usr/sbin/", "/sbin/"};
};

// `said` as readers.h wants it; is_missing: the tool is not installed.
struct FabricToolAnswer {
  FileReading said;
  std::chrono::milliseconds took{0};
};

std::vector<std::string> fabric_tool_argv(FabricTool tool, const FabricToolOptions& options);

// A run that gave no whole answer is repeated once: under load, packets are lost.
FabricToolAnswer ask_fabric_tool(FabricTool tool, const FabricToolOptions& options);

}  // namespace muster
