// The key `remedies` of a compute target: commands of the site that muster runs for nodes whose
// faults ask for them. Each is one line, split into words here once, or a list of words; no shell
// ever sees it. The journal keeps the words and `muster explain` shows them: they are no place for
// passwords. Pure.
//
//   remedies:
//     reset: sudo -n nvidia-smi --gpu-reset -i {gpu}   # on the node, when nothing runs there
//     reboot: sudo -n systemctl reboot                 # on the node
//     reboot_from_here: ipmitool -H {node}-bmc power cycle  # on the controller's host: when the
//                                                           # node does not answer, or `reboot`
//                                                           failed
//
// In arguments: {node} {gpu} {device} {serial} {finding}, as scheduler/model/remediation.h says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/result.h"
#include "templates/yaml/value.h"

namespace muster {

RemedyCommands read_remedies(const Value& value);

// One line split into the words of a command, as a shell would that knows quotes and backslashes
// and nothing else. What a shell would act on is an error, not a word. Pure.

// "a 'b c' \"d\"" is a, `b c` and d.
Result<std::vector<std::string>> command_words(std::string_view line);

}  // namespace muster
