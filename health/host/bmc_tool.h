// Asks the board's management controller (BMC) by ipmitool, through the kernel's device. Blocks,
// for as long as the question's own limit at most; then the tool is killed. One that the kernel
// does not give up holds a lock until it is gone: no second one is started beside it, by whomever.
// For processes of one thread.
#pragma once

#include <functional>
#include <string_view>

#include "health/model/source_files.h"

namespace muster {

// `what`: "time", "sel" or "sdr", as bmc_text.h reads them. `root`: a directory below which the
// device is looked for. `alive`: called now and then while it waits; may be empty. Missing: there
// is no device, none that this user may open, or no tool. "no answer within 10 s": it was killed.
FileReading ask_bmc(std::string_view what, int root, const std::function<void()>& alive);

}  // namespace muster
