#include "launcher/wire/older_records.h"

#include "scheduler/model/record.h"

namespace muster {

namespace {

void rename(Json& object, const char* from, const char* to, Json (*change)(const Json&)) {
  const auto found = object.find(from);
  if (found == object.end()) return;
  object[to] = change(*found);
  object.erase(from);
}

Json one_number(const Json& number) { return Json::array({number}); }

Json one_range(const Json& number) {
  return Json::array({Json{{"low", number}, {"high", number}}});
}

// Up to version 2 a condition of a restart rule was one number.
void many_conditions(Json& rule) {
  rename(rule, "exit_code", "exit_codes", one_range);
  rename(rule, "signal", "signals", one_number);
  rename(rule, "xid", "xids", one_range);
}

}  // namespace

void bring_up_to_date(std::string_view kind, Json& record) {
  if (kind != JobSubmitted::kind && kind != ResumeRequested::kind) return;
  const Json::json_pointer rules("/spec/muster/rules");
  if (!record.contains(rules)) return;
  for (Json& rule : record.at(rules)) many_conditions(rule);
}

}  // namespace muster
