// Lines of the kernel's log that are about a node's health, other than Xids: a table of plain
// matching functions. The first rule that fits a line is its meaning. No state.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "health/model/finding.h"

namespace muster {

// Which device a rule's lines are about; `device`: any on the PCI bus.
enum class LineSubject { node, gpu, hca, device };

struct KernelRule {
  std::string_view check;
  LineSubject subject = LineSubject::node;
  bool (*fits)(std::string_view text) = nullptr;
  CheckSeverity severity;
  FaultClass fault_class = FaultClass::node;
  std::string_view expected;
  // How long a failure is believed when it does not come again; else until what it calls for is
  // done.
  std::optional<std::chrono::seconds> stands_for;
};

std::span<const KernelRule> kernel_rules();
const KernelRule* find_kernel_rule(std::string_view text);

// `mlx5_core 0000:08:00.0 ib0: Link down`: true up, false down.
std::optional<bool> parse_link_change(std::string_view text);
// A header of what the firmware kept of the boot before; the lines of its records follow at once.
bool is_header_of_old_records(std::string_view text);
bool is_line_of_old_records(std::string_view text);
// The GPUs' driver is being loaded: it makes all of them anew.
bool is_driver_load(std::string_view text);
// The firmware refuses a register that some reading of ours asks for: leave the port alone.
bool is_refused_register(std::string_view text);

}  // namespace muster
