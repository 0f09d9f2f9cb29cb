#include "cli/job/launch_profile_option.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/job/launch_report.h"
#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

// What the option's value is when none is given.
constexpr const char* without_file = "true";

int failed(const std::string& why, const CommonOptions& common) {
  complain(why, common);
  return static_cast<int>(ExitCode::internal);
}

}  // namespace

void add_profile_option(Arguments& of, std::string& value) {
  of.flag("--profile", value,
          "Say where the time of the launch went, and write its trace (--profile=FILE; else "
          "JOB-launch-trace.json) for chrome://tracing");
}

int tell_launch(const FoundJob& found, const std::string& value, const CommonOptions& common) {
  if (value.empty()) return 0;
  const auto history = history_of(found);
  if (!history) return failed(history.error().message, common);
  const auto profile = launch_profile(history->records, history->links);
  if (!profile) {
    notice("job " + found.row.name + " has not been placed on any node yet: there is no launch " +
               "to tell of",
           common);
    return 0;
  }
  const int width = is_terminal(Stream::err) ? terminal_width(Stream::err) : 0;
  write_all(Stream::err, launch_text(*profile, width, wants_color(common.color, Stream::err)));
  const std::string path = value == without_file ? found.row.name + "-launch-trace.json" : value;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << chrome_trace(found.row.name, *profile).dump() << "\n";
  file.close();
  if (!file) return failed("cannot write the trace to " + path + ": name another file with "
                           "--profile=FILE", common);
  notice("trace of the launch: " + path, common);
  return 0;
}

}  // namespace muster
