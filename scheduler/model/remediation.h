// The words of a site's remedy command with what they are about put in. No shell ever reads them:
// each placeholder stays inside its word. What an agent says of its devices is not trusted: a value
// that could be taken for an option, or has odd characters, makes no command.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/ids.h"
#include "scheduler/model/node_fault.h"

namespace muster {

// {node} its name · {gpu} the number in "gpu3", or the PCI address of one without a number: what
// `nvidia-smi -i` takes · {device} "gpu3" · {serial} of the board · {finding} the check, "gpu.xid"
inline constexpr std::array<std::string_view, 5> remedy_placeholders{"node", "gpu", "device",
                                                                     "serial", "finding"};

// The first placeholder that there is not, without braces; nothing: all are known.
std::optional<std::string> unknown_placeholder(std::string_view word);

// The first placeholder for which the fault says nothing, or says it oddly, without braces.
std::optional<std::string> unfit_placeholder(const std::vector<std::string>& words,
                                             const NodeId& node, const NodeFault& fault);

// Nothing: there is an unfit placeholder.
std::optional<std::vector<std::string>> remedy_argv(const std::vector<std::string>& words,
                                                    const NodeId& node, const NodeFault& fault);

}  // namespace muster
