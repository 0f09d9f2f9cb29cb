#include "cli/checkpoint/foreign.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/terminal/terminal.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

const char* state_text(SaveState state) {
  switch (state) {
    case SaveState::complete:
      return "COMPLETE";
    case SaveState::incomplete:
      return "INCOMPLETE";
    case SaveState::unknown:
      return "UNKNOWN";
  }
  return "UNKNOWN";
}

Time changed_at(const ForeignCheckpoint& one) {
  return Time(std::chrono::duration_cast<Milliseconds>(std::chrono::nanoseconds(one.changed_ns)));
}

std::string name_of(const ForeignCheckpoint& one) {
  return std::filesystem::path(one.path).filename().string();
}

std::vector<ForeignCheckpoint>::const_iterator newest_of(
    const std::vector<ForeignCheckpoint>& found) {
  return std::ranges::find(found, SaveState::complete, &ForeignCheckpoint::state);
}

}  // namespace

Document foreign_document(const std::vector<ForeignCheckpoint>& found) {
  Document list = Document::array();
  const auto newest = newest_of(found);
  for (auto one = found.begin(); one != found.end(); ++one) {
    list.push_back(Document{{"name", name_of(*one)},
                            {"path", one->path},
                            {"kind", one->kind},
                            {"step", value_or_null(one->step)},
                            {"state", state_text(one->state)},
                            {"usable", one->state == SaveState::complete},
                            {"newest", one == newest},
                            {"reason", value_or_null(one->why)},
                            {"bytes", one->bytes},
                            {"created_at", utc_text(changed_at(*one))}});
  }
  return list;
}

Table foreign_table(const std::vector<ForeignCheckpoint>& found) {
  Table table({"CHECKPOINT", "KIND", "STEP", "STATE", "SIZE", "WHEN", "REMARK"});
  const auto newest = newest_of(found);
  for (auto one = found.begin(); one != found.end(); ++one) {
    table.add({name_of(*one), one->kind, one->step ? std::to_string(*one->step) : "",
               state_text(one->state), bytes_text(static_cast<std::uint64_t>(one->bytes)),
               local_text(changed_at(*one)), one == newest ? "newest usable" : one->why});
  }
  return table;
}

}  // namespace muster
