#include "health/fabric/readers.h"
#include "health/fabric/text_cursor.h"

namespace muster {

namespace {

// "sm lid 1 sm guid 0x100001, activity count 170 priority 0 state 3 SMINFO_MASTER"
std::optional<SubnetManager> manager_of(TextCursor cursor) {
  SubnetManager manager;
  if (!cursor.take("sm lid")) return std::nullopt;
  const auto lid = cursor.take_number();
  if (!lid || !cursor.take("sm guid")) return std::nullopt;
  const auto guid = cursor.take_guid();
  if (!guid || !cursor.take(", activity count") || !cursor.take_number()) return std::nullopt;
  if (!cursor.take("priority")) return std::nullopt;
  const auto priority = cursor.take_number();
  if (!priority || !cursor.take("state") || !cursor.take_number()) return std::nullopt;
  manager.state = cursor.take_word();
  if (!manager.state.starts_with("SMINFO_") || *lid > 0xffff || *priority > 15) return std::nullopt;
  manager.lid = static_cast<int>(*lid);
  manager.guid = *guid;
  manager.priority = static_cast<int>(*priority);
  return manager;
}

}  // namespace

std::optional<SubnetManager> read_sminfo(const FileReading& said) {
  std::optional<SubnetManager> manager;
  bool is_unanswered = false;
  read_lines(said, [&](std::string_view line) {
    TextCursor cursor(line);
    // Its errors begin with its name as it was started, perhaps with a path.
    const std::string_view name = cursor.take_word();
    if (name != "sminfo:" && !name.ends_with("/sminfo:")) return false;
    is_unanswered = is_unanswered || cursor.take("iberror: failed: query");
    if (!manager) manager = manager_of(cursor);
    return true;
  });
  if (!manager && is_unanswered) return SubnetManager{};
  return manager;
}

}  // namespace muster
