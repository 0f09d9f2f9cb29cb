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

// Up to version 4 muster.hang was checked, kept as text and not acted on. Whoever set a time, or
// none, did not ask for one that is learned.
void unwatched_hangs(Json& muster) {
  const auto other = muster.find("other");
  if (other == muster.end() || !other->is_object()) return;
  const auto timeout = other->find("hang.timeout");
  if (timeout != other->end() && *timeout != "auto") muster["hang"]["off"] = true;
  for (const char* key : {"hang.timeout", "hang.first_step", "hang.watch"}) other->erase(key);
}

}  // namespace

void bring_up_to_date(std::string_view kind, Json& record) {
  if (kind != JobSubmitted::kind && kind != ResumeRequested::kind) return;
  const Json::json_pointer muster("/spec/muster"), rules("/spec/muster/rules");
  if (record.contains(rules)) {
    for (Json& rule : record.at(rules)) many_conditions(rule);
  }
  if (record.contains(muster) && record.at(muster).is_object()) unwatched_hangs(record.at(muster));
}

}  // namespace muster
