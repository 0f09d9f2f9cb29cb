#include "health/fabric/judges.h"
#include "health/fabric/readers.h"
#include "health/fabric/text_cursor.h"
#include "health/model/check_words.h"

namespace muster {

const CheckSpec fabric_sm{.id = "fab.sm",
                          .source = "sminfo",
                          .says = "a subnet manager is master",
                          .fault = FaultClass::infra,
                          .phases = check_words::when("T"),
                          .cost = std::chrono::milliseconds(5)};

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

std::span<const CheckSpec> fabric_checks() {
  static const CheckSpec all[] = {fabric_errors, fabric_links, fabric_discover, fabric_sm};
  return all;
}

FabricFindings judge_subnet_manager(const std::optional<SubnetManager>& manager) {
  constexpr std::string_view wanted = "SMINFO_MASTER";
  if (!manager) {
    return {
        {"", make_finding(fabric_sm, "", CheckStatus::unknown, "", "", "the tool could not ask")}};
  }
  const CheckStatus status = manager->state == wanted ? CheckStatus::pass : CheckStatus::fail;
  const std::string who =
      "LID " + std::to_string(manager->lid) + ", " + text_of_guid(manager->guid);
  return {{"", make_finding(fabric_sm, "", status,
                            manager->state.empty() ? "no answer" : manager->state,
                            std::string(wanted), manager->guid == 0 ? "" : who)}};
}

}  // namespace muster
